"""What every method must do on two processes: keep one network, whatever it computes in them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from remnant.files import write_json
from tests.support.tiny_methods import TRIALS, VARIANTS, run_config

SCRIPT = Path(__file__).parents[1] / "support" / "noted_run.py"


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TRIALS, *VARIANTS])
def test_two_processes_hold_the_same_network_after_every_task(name: str, tmp_path: Path) -> None:
    values = run_config(name).model_dump(mode="json")
    values["training"]["devices"] = 2
    values["method"]["first"]["epochs"] = 2  # enough to disagree
    write_json(tmp_path / "config.json", values)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "config.json"), str(tmp_path / "run")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    first, second = ((tmp_path / f"state-{rank}.txt").read_text().split() for rank in (0, 1))
    assert len(first) == len(values["stream"]["task_sizes"])
    assert first == second
