"""Processes of their own, since the largest memory of a process never falls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "flat_memory.py"


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no such measure"),
]


def measure(num_classes: int, exemplars: int, *options: str) -> list[int]:
    """Megabytes at 224 px: stored, decoded, resident at most, and of these of no file."""
    sizes = ["--classes", str(num_classes), "--exemplars", str(exemplars), "--side", "224"]
    command = [sys.executable, str(SCRIPT), "--row", *sizes, "--completed", "500", *options]
    row = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [int(cell.replace(",", "")) for cell in row.strip("| \n").split(" | ")][2:]


def test_the_memory_of_a_process_does_not_grow_with_its_exemplars() -> None:
    few_stored, few_decoded, *few_resident = measure(50, 20, "--held-mb", "1")
    many_stored, many_decoded, *many_resident = measure(250, 20, "--held-mb", "1")
    stored = many_stored - few_stored
    assert stored > 100
    assert many_decoded - few_decoded > 400
    for few, many in zip(few_resident, many_resident, strict=True):
        assert many - few < stored / 2


@pytest.mark.timeout(1800)  # about two minutes of one idle core, and 9 GB of disk for a while
def test_a_thousand_classes_of_eighty_exemplars_take_less_than_3_gb() -> None:
    stored, decoded, resident, _ = measure(1000, 80)
    assert stored > 3_000
    assert decoded > 12_000
    assert resident < 3_000
