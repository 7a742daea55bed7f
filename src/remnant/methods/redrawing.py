"""What a masked network learns by redrawing images, and how it completes and shows them.

[bimae] Zhai et al., ICCV 2023. Equations E3 to E8 in docs/methods/bimae.md.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from remnant.images import ImageSet, patches_to_pixels
from remnant.losses import detail_loss, reconstruction_loss
from remnant.methods.bimae_config import BiMAEConfig
from remnant.models.masked_autoencoder import is_hidden, visible_ids_of
from remnant.models.masked_network import Encoded, MaskedNetwork
from remnant.phases import Reader, Terms

_COMPLETED_AT_ONCE = 256  # images, of at most 64 x 64 pixels; as many fewer as they are larger
_COMPLETED_PIXELS = _COMPLETED_AT_ONCE * 64 * 64


def redrawing_terms(
    network: MaskedNetwork, config: BiMAEConfig, views: Tensor, encoded: Encoded, noise: Tensor
) -> Terms:
    """Reconstruction and detail loss of images [B, C, H, W]; `noise` [B, 2, F] hides patches."""
    if config.reconstruction == "decoder":
        encoded = encoded.detach()
    if encoded.detail is None:
        drawn = network.draw(encoded)  # [bimae] E3
        return {"reconstruct": config.reconstruct_weight * reconstruction_loss(drawn, views)}
    coarse, fine = network.draw_both(encoded)
    spectrum = network.high_pass(fine)
    drawn = coarse + network.inverse(spectrum)  # [bimae] E4, E5
    residual = _residual(network, config, views, coarse.detach(), noise)
    if config.detail_domain == "frequency":
        difference = detail_loss(spectrum, network.high_pass(residual))  # [bimae] E7
    else:
        # Chosen: M is left out of the loss; the completion keeps it (E4).
        difference = detail_loss(fine, residual)
    return {
        "reconstruct": config.reconstruct_weight * reconstruction_loss(drawn, views),
        "detail": config.detail_weight * difference,
    }


@torch.no_grad()
def _residual(
    network: MaskedNetwork, config: BiMAEConfig, views: Tensor, coarse: Tensor, noise: Tensor
) -> Tensor:
    """x2 - x1, what seeing more patches adds to the main reconstruction."""
    fine = _redraw(network, views, noise[:, 0], config.fine_mask_ratio)  # [bimae] E6
    if config.reuse_main_as_x1 and config.mask_ratio == config.coarse_mask_ratio:
        return fine - coarse
    return fine - _redraw(network, views, noise[:, 1], config.coarse_mask_ratio)


def _redraw(network: MaskedNetwork, views: Tensor, noise: Tensor, mask_ratio: float) -> Tensor:
    return network.redraw(views, network.visible_ids(noise, mask_ratio))


# ------------------------------------------------------------------------------------ completions


def complete_set(network: MaskedNetwork, stored: ImageSet, reader: Reader) -> ImageSet:
    """Exemplars known in part, completed; which patches were stored is still told."""
    assert stored.is_known is not None, "whole exemplars need no completion"
    height, width, _ = stored.images.shape
    at_once = max(1, min(_COMPLETED_AT_ONCE, _COMPLETED_PIXELS // (height * width)))
    completed = (
        complete_images(network, stored.images.read(rows), stored.is_known[rows], reader)
        for rows in torch.arange(len(stored)).split(at_once)
    )
    return replace(stored, images=reader.hold(completed, stored.labels, stored.images.shape))


@torch.no_grad()
def complete_images(
    network: MaskedNetwork, images: Tensor, known: Tensor, reader: Reader
) -> Tensor:
    """Images uint8 [n, H, W, C] with the patches that are not `known` [n, GH, GW] drawn by E5."""
    visible_ids = visible_ids_of(~known.flatten(1))
    views = reader.views(images)
    completed = reader.to_images(network.complete(views, visible_ids.to(views.device)))
    height, width = images.shape[1:3]
    is_stored = patches_to_pixels(known, (height, width))
    return torch.where(is_stored[..., None], images, completed)


# --------------------------------------------------------------------------------------- pictures


@torch.no_grad()
def draw_pictures(
    network: MaskedNetwork, config: BiMAEConfig, images: Tensor, reader: Reader
) -> dict[str, Tensor]:
    """See `Draws.redraw`; the patches seen are the same after every task."""
    views, rng = reader.views(images), reader.generator("pictures")
    noise = torch.rand(len(images), 3, network.num_patches, generator=rng).to(views.device)
    visible_ids = network.visible_ids(noise[:, 0], config.mask_ratio)
    encoded = network.encode(views, visible_ids)
    hidden = _hide(images, visible_ids, config.network.patch_size, network.num_patches)
    if encoded.detail is None:
        return {"visible": hidden, "main": reader.to_images(network.draw(encoded))}
    coarse, fine = network.draw_both(encoded)
    detail = network.inverse(network.high_pass(fine))
    seen_less = coarse
    if config.coarse_mask_ratio != config.mask_ratio:
        seen_less = _redraw(network, views, noise[:, 2], config.coarse_mask_ratio)
    seen_more = _redraw(network, views, noise[:, 1], config.fine_mask_ratio)
    drawn = {
        "both": coarse + detail,
        "main": coarse,
        "detail": detail,
        "coarse": seen_less,
        "fine": seen_more,
        "difference": seen_more - seen_less,
        "high": network.inverse(network.high_pass(seen_more - seen_less)),
    }
    return {"visible": hidden} | {name: reader.to_images(x) for name, x in drawn.items()}


def _hide(images: Tensor, visible_ids: Tensor, patch_size: int, num_patches: int) -> Tensor:
    """Images with their hidden patches in grey."""
    height, width = images.shape[1:3]
    hidden = is_hidden(visible_ids.cpu(), num_patches).unflatten(1, (height // patch_size, -1))
    return images.masked_fill(patches_to_pixels(hidden, (height, width))[..., None], 128)
