"""Let the process keep the memory that it frees, where the C library can be told so."""

from __future__ import annotations

import ctypes
import os
import platform

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_NEVER_TRIM = (1 << 31) - 1
_OWN_SETTINGS = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Make glibc reuse large blocks; returns whether it was told so.

    By default every large tensor is mapped and unmapped by the kernel, which clears each page of
    it again: a seventh of a training step on CPUs. The memory of the largest step stays with the
    process instead. What the user has set in the environment stands.
    """
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in _OWN_SETTINGS):
        return False
    tune = ctypes.CDLL(None).mallopt
    return bool(tune(_MMAP_MAX, 0)) and bool(tune(_TRIM_THRESHOLD, _NEVER_TRIM))
