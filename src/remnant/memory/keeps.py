"""What a method carries from task to task beside its network, counted in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from remnant.archives import Arrays, archive_digest


class Keeps(Protocol):
    """One of the things that a method keeps: the exemplar memory, or tensors of its own."""

    @property
    def name(self) -> str:
        """Unique among what a method keeps; also the folder of its arrays in a checkpoint."""
        ...

    @property
    def nbytes(self) -> int: ...

    def ledger(self) -> dict[str, Any]:
        """Where the bytes are, by name."""
        ...

    def state_arrays(self) -> tuple[dict[str, np.ndarray], Any]:
        """Arrays and JSON metadata that `load_arrays` takes back."""
        ...

    def load_arrays(self, arrays: Arrays, metadata: Any, source: str) -> None:
        """The inverse of `state_arrays`.

        Raises:
            InputError: The contents are impossible; the message begins with `source`.
        """
        ...

    def digest(self) -> str:
        """SHA-256 of the contents, as hexadecimal digits; the same in every process."""
        ...


@dataclass(frozen=True)
class KeptTensors:
    """Parameters or buffers of a method that its predictions do not need.

    They are part of the method's state, so that a checkpoint holds them and a device gets them
    with the network; this counts them apart from it.
    """

    name: str
    tensors: Mapping[str, Tensor]

    @classmethod
    def of(cls, name: str, module: nn.Module) -> KeptTensors:
        """The whole state of a module, such as a generator."""
        return cls(name, module.state_dict(keep_vars=True))

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def ledger(self) -> dict[str, Any]:
        return {name: tensor.nbytes for name, tensor in self.tensors.items()}

    def state_arrays(self) -> tuple[dict[str, np.ndarray], Any]:
        return {name: one.detach().cpu().numpy() for name, one in self.tensors.items()}, None

    @torch.no_grad()
    def load_arrays(self, arrays: Arrays, metadata: Any, source: str) -> None:
        for name, tensor in self.tensors.items():
            tensor.copy_(torch.from_numpy(np.array(arrays[name])))

    def digest(self) -> str:
        return archive_digest({}, self.state_arrays()[0])
