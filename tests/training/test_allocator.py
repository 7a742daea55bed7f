"""Large blocks that are freed and asked for again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys, torch
from remnant.training.allocator import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory() == (sys.argv[2] == "told")
for _ in range(20):  # until a block fits between what else was allocated meanwhile
    torch.ones(1 << 24)  # 64 MiB
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    torch.ones(1 << 24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = 5 * (1 << 26) // 4096

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")


def count_faults(*how: str, **environment: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, *how],
        env={"OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def test_blocks_that_are_kept_are_not_cleared_by_the_kernel_again() -> None:
    assert count_faults("keep", "told") < PAGES // 100


def test_without_it_every_page_comes_anew() -> None:
    assert count_faults("leave", "alone", MALLOC_MMAP_THRESHOLD_="131072") > PAGES // 2


def test_what_the_environment_says_stands() -> None:
    assert count_faults("keep", "not told", MALLOC_MMAP_MAX_="65536") > PAGES // 2
