"""How much memory the tensors of a piece of work take at most."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Adds up the bytes of all tensors made while it is on, until they are freed.

    Unlike the size of the process this does not depend on how the C library hands memory out and
    takes it back, so that two runs agree to the byte. What an operation uses within itself and
    frees before it returns is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.peak_bytes = 0
        self._seen: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = [*tree_leaves(args), *tree_leaves(kwargs or {})]
        already = {id(one.untyped_storage()) for one in given if isinstance(one, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        for made in tree_leaves(result):
            if isinstance(made, torch.Tensor) and id(made.untyped_storage()) not in already:
                self._add(made.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        if storage in self._seen:
            return
        self._seen.add(storage)
        self.bytes += storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, self.bytes)
        weakref.finalize(storage, self._remove, storage.nbytes()).atexit = False

    def _remove(self, num_bytes: int) -> None:
        self.bytes -= num_bytes


def peak_bytes(work: Callable[[], object]) -> int:
    """The most that tensors made by `work` take at one moment; what existed before is not in it."""
    with LiveMemory() as memory:
        work()
    return memory.peak_bytes
