"""An encoder that is an ONNX file, run by onnxruntime.

Axes: B images, H height, W width, D features.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remnant.errors import InputError


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
        (given,) = self._session.get_inputs()
        found = self._session.run(None, {given.name: views.float().cpu().numpy()})[0]
        return torch.from_numpy(as_features(found)).to(views.device)

    def __getstate__(self) -> dict[str, Any]:
        """Without the session, which cannot be copied."""
        return {name: value for name, value in super().__getstate__().items() if name != "_session"}


def open_session(content: bytes, source: str) -> Any:
    """A session on the processor.

    Raises:
        InputError: onnxruntime is not installed, or cannot read the model.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise InputError(
            f'{source} needs onnxruntime, which is not installed: pip install "remnant[export]".'
        )
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4
    failures = (RuntimeError, ValueError, *_errors_of(onnxruntime))
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except failures as error:
        reason = str(error).splitlines()[0][:200]
        raise InputError(f"{source} cannot be read by onnxruntime: {reason}.") from None


def _errors_of(onnxruntime: Any) -> tuple[type[BaseException], ...]:
    state = onnxruntime.capi.onnxruntime_pybind11_state
    names = ("Fail", "InvalidProtobuf", "InvalidGraph", "NoSuchFile", "NotImplemented")
    return tuple(getattr(state, name) for name in names if hasattr(state, name))


def as_features(output: np.ndarray) -> np.ndarray:
    """[B, D] as it is; the first token of [B, N, D]; the mean over the map of [B, D, H, W]."""
    if output.ndim == 3:
        return np.ascontiguousarray(output[:, 0])
    if output.ndim == 4:
        return output.mean(axis=(2, 3))
    return output
