"""MRDC: exemplars as JPEG of a quality that is chosen from features, without trial training.

[mrdc] Wang et al., ICLR 2022. The base is UCIR, as released; others work as well.

A lower quality leaves room for more exemplars and distorts their features. After the first task is
trained and before anything is stored, N_q exemplars of each class are herded at each quality q, as
many as its share would hold. Their features span a volume, and so do those of the same images as
they were. The lowest quality whose volume stays close to that of the originals is taken:
|R_q - 1| < threshold.

Departs from [mrdc]: a small number stands on the diagonal of each Gram matrix, so that more
exemplars than features leave a determinant; the released code skips volumes below exp(-500).
Departs from [mrdc]: quantisation is flat and colour whole, as the codec `jpeg` has it here; the
released code writes files with the tables of Pillow.
Chosen: the quality of the first task serves all tasks. Where no quality is close enough, that with
R_q nearest to 1 is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from remnant.errors import InputError
from remnant.images import ArrayImages, ImageSet, Task
from remnant.memory import Candidate, Codec, CodecConfig, KeptTensors, Memory, build_codec, herding
from remnant.memory.codecs.rates import MAX_QUALITY, MIN_QUALITY, RateConfig
from remnant.memory.keeps import Keeps
from remnant.methods.backbones import BackboneConfig
from remnant.methods.base import MethodConfig, MethodContext
from remnant.methods.ucir import UCIRConfig
from remnant.methods.wrapping import UNUSED, Wrapper, WrapperConfig
from remnant.phases import Phase, Reader

_MAX_LOG_RATIO = 300.0  # results are written as JSON, which has no infinity
Quality = Annotated[int, Field(ge=MIN_QUALITY, le=MAX_QUALITY)]


class MRDCConfig(WrapperConfig):
    bases: ClassVar[tuple[str, ...]] = ("ucir", "icarl", "er", "wa", "bic", "podnet", "expandable")

    name: Literal["mrdc"] = "mrdc"
    backbone: BackboneConfig = BackboneConfig(shortcut="project", has_last_relu=False)  # of ucir
    base: MethodConfig = UCIRConfig(first=UNUSED)
    qualities: tuple[Quality, ...] = Field(default=(10, 25, 50, 75, 90), min_length=1)  # released
    threshold: float = Field(default=0.5, gt=0)  # of |R_q - 1|
    jitter: float = Field(default=1e-3, gt=0)  # Chosen: on the diagonals of Gram matrices


class MRDC(Wrapper[MRDCConfig]):
    Config = MRDCConfig
    curve: Tensor  # [qualities, 4]: exemplars and bytes of each, log-volumes coded and original

    def __init__(self, config: MRDCConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.base.herds_coded = True
        self.num_classes = sum(context.task_sizes)
        self.register_buffer("curve", torch.zeros(len(config.qualities), 4))
        codec = None if self.memory is None else self.memory.config.codec
        if not isinstance(codec, RateConfig) or codec.quality is None:
            raise InputError(
                "mrdc chooses the quality of its codec, so memory.codec must have one; got "
                f"{getattr(codec, 'name', None)}. Set memory.codec=jpeg."
            )

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        """Those of the base; the quality is chosen once its first task is trained.

        A base may warm up before it trains, and may store exemplars afterwards, before it tunes.
        On resume the choice is repeated with the same network, and gives the same.
        """
        for phase in self.base.phases(task, reader):
            yield phase
            if task.index == 0 and phase.name == "train":
                self._choose_quality(task, reader)

    def _choose_quality(self, task: Task, reader: Reader) -> None:
        memory, config = _memory_of(self), self.config
        share = memory.budget.quota(self.num_classes)  # what a class ends with
        codecs = [_with_quality(memory.config.codec, quality) for quality in config.qualities]
        for index, codec in enumerate(codecs):
            trial = build_codec(codec, memory.image_shape)
            rows = [
                self._try(trial, task.train.of_class(label), share, reader)
                for label in task.new_labels
            ]
            self.curve[index] = torch.tensor(rows).mean(dim=0)
        memory.use_codec(codecs[choose(self.ratios(), config.threshold)])

    def _try(
        self, codec: Codec, images: ImageSet, share: int, reader: Reader
    ) -> tuple[float, float, float, float]:
        """One class at one quality: exemplars, bytes of one, and log-volumes."""
        coded, num_bytes = compress(codec, images, reader)
        count = max(1, min(len(images), int(share / num_bytes)))
        features = reader.apply(self.features, coded)
        ranks = herding(features, count)
        originals = reader.apply(self.features, images.select(ranks))
        jitter = self.config.jitter
        volumes = log_volume(features[ranks], jitter), log_volume(originals, jitter)
        return float(len(ranks)), num_bytes, *volumes

    def ratios(self) -> list[float]:
        """R_q of each quality, the geometric mean over the classes; always finite."""
        logs = self.curve[:, 2].double() - self.curve[:, 3].double()
        return logs.clamp(max=_MAX_LOG_RATIO).exp().tolist()

    def decisions(self) -> list[dict[str, Any]]:
        """See `Decides`."""
        if not bool(self.curve.any()):
            return []
        rows = [
            {"quality": quality, "exemplars": round(row[0], 1), "bytes": round(row[1], 1)}
            | {"log volume": round(row[2], 4), "of originals": round(row[3], 4)}
            | {"ratio": round(ratio, 4)}
            for quality, row, ratio in zip(
                self.config.qualities, self.curve.tolist(), self.ratios(), strict=True
            )
        ]
        why = (
            "The lowest whose exemplars span about the volume of their originals: "
            f"|ratio - 1| below {self.config.threshold:g}, or else the nearest to 1."
        )
        chosen = self.config.qualities[choose(self.ratios(), self.config.threshold)]
        return [{"name": "memory.codec.quality", "value": chosen, "why": why, "curve": rows}]

    def kept(self) -> list[Keeps]:
        return [*super().kept(), KeptTensors("quality_curve", {"curve": self.curve})]


def choose(ratios: list[float], threshold: float) -> int:
    """Which quality, of ascending ones: the first close enough, or else the closest."""
    distances = [abs(ratio - 1) for ratio in ratios]
    close = (index for index, distance in enumerate(distances) if distance < threshold)
    return next(close, min(range(len(distances)), key=distances.__getitem__))


def log_volume(features: Tensor, jitter: float) -> float:
    """Half the log-determinant of the Gram matrix of unit features [N, D]."""
    units = F.normalize(features.double())
    gram = units @ units.T + jitter * torch.eye(len(units), dtype=torch.float64)
    return float(torch.linalg.slogdet(gram).logabsdet) / 2


def compress(codec: Codec, images: ImageSet, reader: Reader) -> tuple[ImageSet, float]:
    """The images as a codec leaves them, and the mean bytes of one with its length."""
    pixels, num_bytes, rng = [], 0, reader.generator("quality")
    for batch in reader.images(images):
        for image in batch.numpy():
            exemplar = codec.encode(Candidate(image), rng)
            pixels.append(codec.decode(exemplar)[0])
            num_bytes += exemplar.payload_size + codec.length_bytes
    coded = replace(images, images=ArrayImages(torch.from_numpy(np.stack(pixels))))
    return coded, num_bytes / len(images)


def _with_quality(codec: CodecConfig, quality: int) -> CodecConfig:
    return codec.model_copy(update={"quality": quality})


def _memory_of(method: MRDC) -> Memory:
    assert method.memory is not None, "the method keeps exemplars"
    return method.memory
