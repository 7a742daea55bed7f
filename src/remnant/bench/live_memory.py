"""Peak memory of the tensors that a function allocates."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Counts the bytes of all live tensors that were allocated while it is active.

    Unlike the size of the process, this does not depend on the C library's allocator: two runs
    agree to the byte. Workspace that an operation allocates and frees internally is not counted.
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
    """Peak bytes of the tensors allocated by `work`; tensors that existed before do not count."""
    with LiveMemory() as memory:
        work()
    return memory.peak_bytes
