"""A learner as one ONNX file: images in, class probabilities out, normalisation included.

A file is written only after onnxruntime and torch agree on images of the memory.

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
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remnant._version import __version__
from remnant.data.decode import resized_side
from remnant.errors import InputError, how_to_install
from remnant.files import write_bytes
from remnant.learner.learner_state import LearnerState
from remnant.randomness import generator
from remnant.views.augment import plain_views

INPUT, OUTPUT = "images", "probabilities"
MAX_DIFFERENCE = 1e-4  # of a probability, between onnxruntime and torch

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")  # of the extra
_CHECKED = 64  # images at most
_NOISY = ("torch.onnx", "onnxscript", "onnx_ir")  # loggers


@dataclass(frozen=True)
class ExportCheck:
    """How well an exported model agrees with torch."""

    num_images: int
    max_difference: float  # of a probability
    num_bytes: int


class _Graph(nn.Module):
    """Images [N, H, W, 3], bytes or floats from 0 to 1 -> probabilities [N, K]."""

    def __init__(self, state: LearnerState, takes_floats: bool) -> None:
        super().__init__()
        self.method = state.copy_method()
        self._mean_and_std = state.config.mean, state.config.std
        self._takes_floats = takes_floats
        self._temperature = state.temperature

    def forward(self, images: Tensor) -> Tensor:
        levels = images * 255 if self._takes_floats else images
        scores = self.method.predict(plain_views(levels, *self._mean_and_std))
        return (scores / self._temperature).softmax(dim=1)


def export(state: LearnerState, path: Path, *, takes_floats: bool = False) -> ExportCheck:
    """Write an ONNX model, as a whole or not at all, that does what `predict_proba` does.

    The input `images` is [N, H, W, 3], RGB, for any N, already resized and cropped to the size of
    the network; the output `probabilities` is float32 [N, K]. The metadata list the classes in
    order and say how images must be resized and cropped.

    Args:
        takes_floats: Images are float32 from 0 to 1; else uint8.

    Raises:
        InputError: The extra is not installed, the method cannot be exported, or the exported
            model does not agree with torch.
    """
    if path.is_dir():
        raise InputError(f"an exported model is one file; {path} is a folder. Name a file.")
    if any(importlib.util.find_spec(name) is None for name in _PACKAGES):
        raise InputError(
            f"export needs {', '.join(_PACKAGES)}, which are not all installed. "
            + how_to_install("export")
        )
    images = _sample(state)
    if takes_floats:
        images = images.float() / 255
    graph = _Graph(state, takes_floats).eval()
    content = _convert(graph, images, state)
    checked = _check(content, graph, images)
    write_bytes(path, content)
    return checked


def _sample(state: LearnerState) -> Tensor:
    """Images to check the model with, uint8 [N, H, W, 3]: exemplars from all over the memory.

    Chosen: noise for a method that keeps none. At least two images, since torch would export a
    batch size of one as a constant.
    """
    memory = state.method.memory
    stored = None if memory is None else memory.images()
    if stored is None:
        shape = (2, *state.config.image_shape)
        rng = generator(state.config.seed, "export")
        return torch.randint(0, 256, shape, dtype=torch.uint8, generator=rng)
    places = torch.linspace(0, len(stored) - 1, min(_CHECKED, max(2, len(stored)))).long()
    return stored.images.read(places)


def _convert(graph: nn.Module, images: Tensor, state: LearnerState) -> bytes:
    import onnx

    with _quiet_exporter():
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
            raise _cannot_export(state) from None
    assert program is not None, "the dynamo exporter returns a program"
    model = program.model_proto
    if model.graph.input[0].type.tensor_type.shape.dim[0].dim_value:
        raise _cannot_export(state)  # the number of images became a constant
    _clear_notes(model.graph)
    for function in model.functions:
        _clear_notes(function)
    model.ClearField("doc_string")
    metadata = describe(state, is_float=images.is_floating_point())
    onnx.helper.set_model_props(model, metadata)
    return model.SerializeToString()


def _clear_notes(part: Any) -> None:
    """Remove what the exporter notes beside a graph, function, node or value.

    Its stack traces name folders of this machine, and are most of a small file.
    """
    for field in ("metadata_props", "doc_string"):
        if field in part.DESCRIPTOR.fields_by_name:
            part.ClearField(field)
    for name in ("node", "input", "output", "value_info", "initializer", "attribute"):
        if name in part.DESCRIPTOR.fields_by_name:
            for inner in getattr(part, name):
                if not isinstance(inner, str):  # a node has the names of its inputs and outputs
                    _clear_notes(inner)
    if part.DESCRIPTOR.name == "AttributeProto":  # the branches of a condition, say
        for graph in (*([part.g] if part.HasField("g") else []), *part.graphs):
            _clear_notes(graph)


def _cannot_export(state: LearnerState) -> InputError:
    return InputError(
        f"the exporter of torch {torch.__version__} cannot turn {state.config.method.name} "
        "into ONNX. Nothing was written."
    )


def describe(state: LearnerState, *, is_float: bool) -> dict[str, str]:
    """The metadata of an exported model; lists and mappings are JSON."""
    size = state.config.image_size
    preparation: dict[str, Any] = {
        "layout": "NHWC",
        "channels": "RGB",
        "range": [0, 1] if is_float else [0, 255],
        "resize_shorter_side": resized_side(size),
        "crop_centre": [size, size],
        "inside_the_graph": {"mean": state.config.mean, "std": state.config.std},
    }
    return {
        "classes": json.dumps(state.classes),
        "preprocessing": json.dumps(preparation),
        "method": state.config.method.name,
        "remnant": __version__,
    }


def _check(content: bytes, graph: nn.Module, images: Tensor) -> ExportCheck:
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
            f"the exported model must agree with torch within {MAX_DIFFERENCE:g}; it differs by "
            f"{worst:g} in onnxruntime {onnxruntime.__version__}. Nothing was written; try other "
            "versions of torch and onnxruntime."
        )
    return ExportCheck(len(images), worst, len(content))


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Without the exporter's warnings and messages: the result is checked anyway."""
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
