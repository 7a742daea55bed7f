"""Processes of their own, since the largest memory of a process never falls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "flat_memory.py"


def measure(num_classes: int) -> list[int]:
    """Megabytes stored, decoded, resident at most, and of these of no file."""
    sizes = ["--classes", str(num_classes), "--exemplars", "20", "--side", "224", "--held-mb", "1"]
    command = [sys.executable, str(SCRIPT), "--row", *sizes, "--completed", "500"]
    row = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [int(cell.replace(",", "")) for cell in row.strip("| \n").split(" | ")][2:]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no such measure")
def test_the_memory_of_a_process_does_not_grow_with_its_exemplars() -> None:
    few_stored, few_decoded, *few_resident = measure(50)
    many_stored, many_decoded, *many_resident = measure(250)
    stored = many_stored - few_stored
    assert stored > 100
    assert many_decoded - few_decoded > 400
    for few, many in zip(few_resident, many_resident, strict=True):
        assert many - few < stored / 2
