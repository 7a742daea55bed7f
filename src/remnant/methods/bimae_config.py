"""The settings of Bilateral MAE, and which of them go together."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from remnant.errors import InputError
from remnant.images import Shape, Task, count_visible
from remnant.memory import Memory
from remnant.methods.backbones import Channels
from remnant.methods.base import MethodConfig
from remnant.methods.partial_exemplars import require_patches
from remnant.methods.windows import epochs_for
from remnant.models.bilateral import BilateralMAE
from remnant.models.conv_autoencoder import ConvMAE
from remnant.models.masked_network import MaskedNetwork
from remnant.phases import Schedule
from remnant.settings import Settings


class BilateralConfig(Settings):
    """The network; defaults are the paper's."""

    encoder: Literal["vit", "conv"] = "vit"  # "conv" goes beyond the paper
    patch_size: int = Field(default=4, ge=1)  # px

    # Of the vit alone.

    width: int = Field(default=384, ge=4, multiple_of=4)
    depth: int = Field(default=5, ge=1)  # blocks
    head_width: int = Field(default=32, ge=1)  # of attention; width / head_width heads
    mlp_width: int = Field(default=1536, ge=1)  # encoder and decoder blocks
    fusion_mlp_width: int = Field(default=1536, ge=1)  # of the embedding fusion
    pools_patches: bool = False  # classify by a weighted mean of patches, not by the class token
    has_mlp_stem: bool = False  # two layers from pixels to tokens, not one

    # Of the detail branch.

    cutoff: float = Field(default=0.25, ge=0, lt=0.5)  # of M, in cycles per pixel
    frequency_per: Literal["image", "patch"] = "image"  # what M transforms as one piece

    # Of the conv alone: a patch is a unit of 2 pixels to the power of the number of stages.

    channels: Channels = (48, 160, 192)  # of each stage
    stem_channels: int = Field(default=24, ge=1)


_OF_VIT = (
    *("width", "depth", "head_width", "mlp_width", "fusion_mlp_width"),
    *("pools_patches", "has_mlp_stem"),
)
_OF_CONV = ("channels", "stem_channels")


class BiMAEConfig(MethodConfig):
    """The paper's method; the last group goes beyond it and is off by default."""

    name: Literal["bimae"] = "bimae"
    network: BilateralConfig = BilateralConfig()

    mask_ratio: float = Field(default=0.75, ge=0, lt=1)  # r
    coarse_mask_ratio: float = Field(default=0.75, ge=0, lt=1)  # r1
    fine_mask_ratio: float = Field(default=0.40, ge=0, lt=1)  # r2
    classify_weight: float = Field(default=0.01, ge=0)  # [bimae] E8, as the next two
    reconstruct_weight: float = Field(default=1.0, ge=0)
    detail_weight: float = Field(default=1.0, ge=0)

    # Ablations of the paper.

    generate_replay: bool = True  # off: only the stored patches of exemplars are shown
    # "decoder": the decoder learns to redraw, but the encoder gets no gradient from it
    reconstruction: Literal["on", "decoder", "off"] = "on"
    has_detail_branch: bool = True
    detail_domain: Literal["frequency", "spatial"] = "frequency"  # of the detail loss
    reuse_main_as_x1: bool = True  # where r = r1

    # Beyond the paper.

    # "full": whole images are classified whole, and some of them masked beside it, where they learn
    # what the network said of the whole image; exemplars known in part keep their label.
    # "window": all but the last steps see one rectangle of each image and compute nothing for the
    # rest. Epochs count those of whole images: there are as many more as take the same arithmetic.
    view: Literal["masked", "full", "window"] = "masked"
    # With fewer exemplars per old class on average a task sees whole images all the time: more
    # steps would only learn these few by heart.
    window_exemplars: int = Field(default=0, ge=0)
    side_ratio: float = Field(default=0.0, ge=0, le=1)  # of whole images that are also seen masked
    side_weight: float = Field(default=1.0, ge=0)  # of the loss of what is seen masked
    # Of the images seen masked, how many are reconstructed in a step; their loss is divided by it.
    # With the detail branch, reconstruction is about 70 % of a masked step's FLOPs.
    decoded_ratio: float = Field(default=1.0, ge=0.01, le=1)
    exact_view_ratio: float = Field(default=0.0, ge=0, le=1)  # exemplars by stored patches alone
    # "symmetric": new images look in training as exemplars do, cropped, coded and completed as
    # often, so that no network can tell old classes from new ones by their looks.
    presentation: Literal["published", "symmetric"] = "published"
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    # Unless views are masked, times the share of old classes.
    distill_weight: float = Field(default=0.0, ge=0)
    distill_temperature: float = Field(default=2.0, gt=0)
    average_decay: float = Field(default=0.0, ge=0, lt=1)  # of the mean weights; 0: none are kept
    # Times the log of a class's number of images, taken from its scores after each later task.
    logit_adjustment: float = Field(default=0.0, ge=0)
    align_weights: bool = False  # new rows of the classifier as long as old ones, as in `wa`
    balanced_tuning: Schedule | None = None  # of the classifier alone, after each later task
    refresh_every_epochs: int | None = Field(default=None, ge=1)  # completions by the current net
    unmasked_ratio: float = Field(default=0.0, ge=0, le=1)  # steps that classify whole images
    unmasked_placement: Literal["spread", "end"] = "end"  # of these steps in a phase

    def sees_windows(self, task: Task, num_exemplars: float) -> bool:
        """Whether a task is learned through windows, beside so many exemplars of old classes."""
        return (
            self.view == "window" and num_exemplars >= self.window_exemplars * task.num_old_classes
        )

    def schedule_with(self, task: Task, num_exemplars: float) -> Schedule:
        given = self.schedule(task)
        if not self.sees_windows(task, num_exemplars):
            return given
        return given.stretched(epochs_for(given.epochs, self.mask_ratio, self.unmasked_ratio))

    @property
    def twin_ratio(self) -> float:
        """How often a new image is shown as the memory would give it back, coded and completed."""
        return 1.0 if self.presentation == "symmetric" else self.codec_view_ratio


def build_network(config: BiMAEConfig, image_shape: Shape) -> MaskedNetwork:
    """The network that the settings ask for.

    Raises:
        InputError: They do not fit the images, or one another.
    """
    sizes: dict[str, Any] = config.network.model_dump(exclude={"encoder"})
    sizes |= {"image_shape": image_shape, "has_detail_branch": config.has_detail_branch}
    is_conv = config.network.encoder == "conv"
    for name in _OF_VIT if is_conv else _OF_CONV:
        del sizes[name]
    try:
        if is_conv:
            has_masks = config.view != "window"  # windows are small images, not masked ones
            has_decoder = config.reconstruction != "off"
            return ConvMAE(has_masks=has_masks, has_decoder=has_decoder, **sizes)
        return BilateralMAE(**sizes)
    except ValueError as error:
        raise InputError(f"method.network: {error}") from None


def check_options(config: BiMAEConfig, num_patches: int) -> None:
    """Raises InputError for settings that contradict one another."""
    for name in ("mask_ratio", "coarse_mask_ratio", "fine_mask_ratio"):
        ratio = getattr(config, name)
        if count_visible(num_patches, ratio) == 0:
            raise InputError(
                f"method.{name} must leave at least one of {num_patches} patches "
                f"visible; got {ratio}. Lower it."
            )
    if config.network.encoder == "conv":
        if config.has_detail_branch and config.reconstruction == "off":
            raise InputError(
                "a detail branch of convolutions learns by drawing. Set "
                "method.has_detail_branch=false, or method.reconstruction=on."
            )
        if config.view == "masked":
            raise InputError(
                "convolutions keep separate batch statistics for masked and for whole images, and "
                "are tested on whole ones. Set method.view to full or window, or "
                "method.network.encoder=vit."
            )
    if config.view == "window":
        _check_windows(config)
    elif config.window_exemplars > 0:
        raise InputError(
            "method.window_exemplars is about method.view=window. Set that, or "
            "method.window_exemplars=0."
        )
    if config.view == "full":
        _check_full_view(config)
    elif config.side_ratio > 0:
        raise InputError("method.side_ratio is about method.view=full. Set that, or leave it out.")
    if config.decoded_ratio < 1 and config.reconstruction == "off":
        raise InputError(
            "method.decoded_ratio must be 1 where nothing is reconstructed "
            f"(method.reconstruction=off); got {config.decoded_ratio}. Set it to 1."
        )
    if config.average_decay > 0 and config.refresh_every_epochs is not None:
        raise InputError(
            "a mean of weights is kept over a whole task, which method.refresh_every_epochs cuts. "
            "Leave one of them out."
        )


def _check_full_view(config: BiMAEConfig) -> None:
    if config.unmasked_ratio > 0:
        raise InputError(
            "with method.view=full every step shows whole images. Set method.unmasked_ratio=0."
        )
    if config.presentation == "symmetric" and config.exact_view_ratio > 0:
        raise InputError(
            "with method.view=full, method.presentation=symmetric cannot be kept by exact views. "
            "Set method.codec_view_ratio=1 instead: new images are then shown as exemplars are."
        )
    if config.reconstruction != "off" and config.side_ratio == 0:
        raise InputError(
            "with method.view=full only the images that are also seen masked are redrawn. Set "
            "method.side_ratio above 0, or method.reconstruction=off."
        )


def _check_windows(config: BiMAEConfig) -> None:
    if config.network.encoder != "conv":
        raise InputError(
            "a transformer sees patches by their places, and a window moves by single pixels. Set "
            "method.network.encoder=conv, or method.view=masked."
        )
    if config.reconstruction != "off":
        raise InputError(
            "nothing is drawn around a window. Set method.reconstruction=off, or method.view=full."
        )
    if config.unmasked_ratio == 0:
        raise InputError(
            "after its windows a network must see whole images, on which it is tested. Set "
            "method.unmasked_ratio above 0, or method.view=full."
        )
    if config.unmasked_placement != "end":
        raise InputError(
            "windows come first and whole images last. Set method.unmasked_placement=end."
        )
    if config.refresh_every_epochs is not None:
        raise InputError(
            "windows are cut from exemplars that are stored whole, so that none is drawn again. "
            "Leave method.refresh_every_epochs out."
        )


def check_memory(config: BiMAEConfig, memory: Memory | None) -> None:
    """Raises InputError for a memory that the settings cannot use."""
    shows_stored_alone = config.exact_view_ratio > 0 or not config.generate_replay
    is_partial = memory is not None and memory.codec.is_partial
    if is_partial and config.view == "window":
        raise InputError(
            "a window is cut from images that are known whole. Set memory.codec to one that keeps "
            "whole images, such as transform, or method.view=full."
        )
    if not is_partial and not shows_stored_alone:
        return
    needy = "method.exact_view_ratio and method.generate_replay are"
    codec = require_patches(memory, config.network.patch_size, needy)
    shows_whole = config.unmasked_ratio > 0 or config.balanced_tuning is not None
    if not config.generate_replay and shows_whole:
        raise InputError(
            "without completions no exemplar can be shown whole. Set method.generate_replay to "
            "true, or method.unmasked_ratio to 0 and method.balanced_tuning to none."
        )
    needs_completions = config.generate_replay and (config.exact_view_ratio < 1 or shows_whole)
    if needs_completions and config.reconstruction == "off":
        raise InputError(
            "completing exemplars needs a decoder that learns. Set method.reconstruction to on "
            "or decoder, or memory.codec to raw."
        )
    if shows_stored_alone and codec.config.mask_ratio > config.mask_ratio:
        raise InputError(
            "an exact view shows what was stored, so memory.codec.mask_ratio must not exceed "
            f"method.mask_ratio; got {codec.config.mask_ratio} and {config.mask_ratio}."
        )
