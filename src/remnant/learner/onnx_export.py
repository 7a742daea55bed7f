"""A learner as one ONNX file: images in, class probabilities out, normalisation inside.

A file is written only after onnxruntime has given, on images of the memory, what torch gives.

Axes: N images, H height, W width, K classes.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from remnant._version import __version__
from remnant.data.decode import resized_side
from remnant.errors import InputError
from remnant.files import write_bytes
from remnant.learner.learner_state import Knowledge, revive
from remnant.randomness import generator
from remnant.training.task_loop import standing_state
from remnant.views.augment import test_views

if TYPE_CHECKING:
    from remnant.learner.learner import Learner

INPUT, OUTPUT = "images", "probabilities"
MAX_DIFFERENCE = 1e-4  # of a probability, between onnxruntime and torch

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")  # of the extra
_CHECKED = 64  # images at most
_NOISY = ("torch.onnx", "onnxscript", "onnx_ir")  # loggers


@dataclass(frozen=True)
class Checked:
    """What an exported file was held against before it was written."""

    num_images: int
    max_difference: float  # of a probability
    num_bytes: int


class _Graph(nn.Module):
    """Images [N, H, W, 3], bytes or floats from 0 to 1 -> probabilities [N, K]."""

    def __init__(self, knowledge: Knowledge, takes_floats: bool) -> None:
        super().__init__()
        # Another of the same weights, on the CPU, wherever the learner works.
        state = standing_state(knowledge.method)
        self.method = revive(knowledge.settings, knowledge.task_sizes, *state, "the learner")
        self._look = knowledge.settings.mean, knowledge.settings.std
        self._takes_floats = takes_floats

    def forward(self, images: Tensor) -> Tensor:
        levels = images * 255 if self._takes_floats else images
        return self.method.predict(test_views(levels, *self._look)).softmax(dim=1)


def export(learner: Learner, path: Path, *, takes_floats: bool = False) -> Checked:
    """Write an ONNX model, whole or not at all, that does what `predict_proba` does.

    The input `images` is [N, H, W, 3], RGB, any number of them, already framed to the size of the
    network; the output `probabilities` is float32 [N, K]. The metadata name the classes in order
    and tell how images are to be framed.

    Args:
        takes_floats: Images are float32 from 0 to 1; else uint8.

    Raises:
        InputError: The extra is not installed, the method cannot be exported, or the exported
            model does not give what torch gives.
    """
    if path.is_dir():
        raise InputError(f"an exported model is one file; {path} is a folder. Name a file.")
    if any(importlib.util.find_spec(name) is None for name in _PACKAGES):
        raise InputError(
            f"export needs {', '.join(_PACKAGES)}, which are not all installed: "
            'pip install "remnant[export]".'
        )
    knowledge = learner._known()
    images = _sample(knowledge)
    if takes_floats:
        images = images.float() / 255
    graph = _Graph(knowledge, takes_floats).eval()
    content = _convert(graph, images, knowledge)
    checked = _check(content, graph, images)
    write_bytes(path, content)
    return checked


def _sample(knowledge: Knowledge) -> Tensor:
    """Images to try the model on, uint8 [N, H, W, 3]: exemplars, spread evenly over the memory.

    Chosen: noise for a method that keeps none, two images at least, since torch takes a batch of
    one for a constant.
    """
    memory = knowledge.method.memory
    stored = None if memory is None else memory.images()
    if stored is None:
        shape = (2, *knowledge.settings.image_shape)
        chance = generator(knowledge.settings.seed, "export")
        return torch.randint(0, 256, shape, dtype=torch.uint8, generator=chance)
    places = torch.linspace(0, len(stored) - 1, min(_CHECKED, max(2, len(stored)))).long()
    return stored.images.read(places)


def _convert(graph: nn.Module, images: Tensor, knowledge: Knowledge) -> bytes:
    import onnx

    with _hushed():
        try:
            program = torch.onnx.export(
                graph,
                (images[:2],),
                dynamo=True,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes={"images": {0: torch.export.Dim("batch")}},
                verbose=False,
            )
        except torch.onnx.OnnxExporterError:
            raise _unable(knowledge) from None
    assert program is not None, "the exporter that is asked for gives a program"
    model = program.model_proto
    if model.graph.input[0].type.tensor_type.shape.dim[0].dim_value:
        raise _unable(knowledge)  # the number of images became a constant
    metadata = describe(knowledge, is_float=images.is_floating_point())
    onnx.helper.set_model_props(model, metadata)
    return model.SerializeToString()


def _unable(knowledge: Knowledge) -> InputError:
    return InputError(
        f"the exporter of torch {torch.__version__} cannot turn {knowledge.settings.method.name} "
        "into ONNX. Nothing was written."
    )


def describe(knowledge: Knowledge, *, is_float: bool) -> dict[str, str]:
    """The metadata of an exported model; lists and mappings are JSON."""
    size = knowledge.settings.image_size
    preparation: dict[str, Any] = {
        "layout": "NHWC",
        "channels": "RGB",
        "range": [0, 1] if is_float else [0, 255],
        "resize_shorter_side": resized_side(size),
        "crop_centre": [size, size],
        "inside_the_graph": {"mean": knowledge.settings.mean, "std": knowledge.settings.std},
    }
    return {
        "classes": json.dumps(knowledge.classes),
        "preprocessing": json.dumps(preparation),
        "method": knowledge.settings.method.name,
        "remnant": __version__,
    }


def _check(content: bytes, graph: nn.Module, images: Tensor) -> Checked:
    """Compare with torch, all images at once and one alone."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    worst = 0.0
    for batch in (images, images[:1]):
        with torch.no_grad():
            expected = graph(batch).numpy()
        found = np.asarray(session.run([OUTPUT], {INPUT: batch.numpy()})[0])
        worst = float(np.maximum(worst, np.abs(found - expected).max()))
    if not worst <= MAX_DIFFERENCE:  # written so that nan fails
        raise InputError(
            f"the exported model must give the probabilities of torch up to {MAX_DIFFERENCE:g}; it "
            f"is {worst:g} off in onnxruntime {onnxruntime.__version__}. Nothing was written; try "
            "other versions of torch and onnxruntime."
        )
    return Checked(len(images), worst, len(content))


@contextmanager
def _hushed() -> Iterator[None]:
    """Without what the exporter says of itself: the result is checked, whatever it says."""
    loggers = [logging.getLogger(name) for name in _NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
