"""An encoder that is an ONNX file, run by onnxruntime.

Axes: B images, H height, W width, D features.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remnant.errors import InputError, how_to_install


class ONNXNetwork(nn.Module):
    """Views [B, 3, H, W] -> features [B, D]; the file itself is the only weight."""

    content: Tensor
    _session: Any = None

    def __init__(self, num_bytes: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("content", torch.zeros(num_bytes, dtype=torch.uint8))

    def forward(self, views: Tensor) -> Tensor:
        if views.is_meta or not self.content.any():  # built for its shapes alone
            return views.new_zeros(len(views), self.width)
        if self._session is None:
            self._session = open_session(self.content.numpy().tobytes(), "the ONNX encoder")
        found = run_session(self._session, views.float().cpu().numpy(), "the ONNX encoder")
        if found.shape != (len(views), self.width):
            raise InputError(
                f"the ONNX encoder must give features [{len(views)}, {self.width}]; it gives "
                f"{[*found.shape]}. Restore the store from a copy."
            )
        return torch.from_numpy(found).to(views.device)

    def __getstate__(self) -> dict[str, Any]:
        """Without the session, which cannot be copied."""
        return {name: value for name, value in super().__getstate__().items() if name != "_session"}


def open_session(content: bytes, source: str) -> Any:
    """A session on the processor.

    Raises:
        InputError: onnx or onnxruntime is not installed, the model refers to other files, or
            onnxruntime cannot read it.
    """
    for needed in ("onnx", "onnxruntime"):
        if importlib.util.find_spec(needed) is None:
            raise InputError(
                f"{source} needs {needed}, which is not installed. {how_to_install('export')}"
            )
    import onnxruntime

    _check_whole(content, source)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4
    with _explaining(source):
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run_session(session: Any, views: np.ndarray, source: str) -> np.ndarray:
    """The features of views, [B, D].

    Raises:
        InputError: The model does not take them, or gives no features.
    """
    (given,) = session.get_inputs()
    with _explaining(source):
        found = session.run(None, {given.name: views})[0]
    if not isinstance(found, np.ndarray) or found.dtype.kind != "f" or not 2 <= found.ndim <= 4:
        raise InputError(f"{source} must give features of floating-point numbers; it does not.")
    return np.ascontiguousarray(as_features(found), dtype=np.float32)


def _check_whole(content: bytes, source: str) -> None:
    """Refuse a model that would make onnxruntime read other files, below the current folder."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model_from_string(content)
    except DecodeError:
        raise InputError(f"{source} cannot be read: it is not a whole ONNX model.") from None
    if any(one.external_data or one.data_location for one in _tensors_in(model)):
        raise InputError(
            f"{source} must have all its weights inside; it refers to other files. Save it without "
            "external data."
        )


def _tensors_in(message: Any) -> Iterator[Any]:
    """All tensors of a model: of graphs, attributes, functions and whatever else may hold them."""
    for field, value in message.ListFields():
        if field.message_type is None:  # numbers, text, bytes
            continue
        for part in [value] if hasattr(value, "ListFields") else value:
            if field.message_type.name == "TensorProto":
                yield part
            yield from _tensors_in(part)


@contextmanager
def _explaining(source: str) -> Iterator[None]:
    import onnxruntime

    runtime: Any = onnxruntime
    state = runtime.capi.onnxruntime_pybind11_state
    own = tuple(
        one for one in vars(state).values() if isinstance(one, type) and issubclass(one, Exception)
    )
    try:
        yield
    except (RuntimeError, ValueError, MemoryError, *own) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise InputError(f"{source} cannot be used by onnxruntime: {reason}.") from None


def as_features(output: np.ndarray) -> np.ndarray:
    """[B, D] as it is; the first token of [B, N, D]; the mean over the map of [B, D, H, W]."""
    if output.ndim == 3:
        return np.ascontiguousarray(output[:, 0])
    if output.ndim == 4:
        return output.mean(axis=(2, 3))
    return output
