"""A run folder that remnant 0.1.0 wrote (commit c1833d0) can still be read, shown and used."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from remnant.config import load_config
from remnant.errors import InputError
from remnant.learner import Learner
from remnant.memory import Memory
from remnant.reports import write_report
from remnant.runs.experiment import resume
from remnant.runs.run_folder import CONFIG, MEMORY, read_run

OLD = Path(__file__).parent / "old_run"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD, tmp_path / "old"))


def test_its_numbers_are_read(folder: Path) -> None:
    result = read_run(folder).result
    assert result.finished
    assert result.task_sizes == [2, 2]
    assert len(result.accuracy_matrix) == 2
    assert result.memory is not None
    assert result.memory.used_bytes == Memory.load(folder / MEMORY).nbytes


def test_its_page_is_written_again(folder: Path) -> None:
    page = write_report(folder).read_text()
    assert "Redrawn from the visible patches" in page


def test_its_memory_is_what_it_was(folder: Path, tmp_path: Path) -> None:
    Memory.load(folder / MEMORY).save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (OLD / MEMORY).read_bytes()


def test_its_config_is_complete(folder: Path) -> None:
    config = load_config(folder / CONFIG)
    assert config.method.name == "bimae"
    assert config.memory is not None


def test_what_it_learned_can_be_asked(folder: Path) -> None:
    learner = Learner.from_run(folder)
    images = np.zeros((3, 8, 8, 3), np.uint8)
    assert learner.predict_proba(images).shape == (3, 4)


def test_it_is_finished(folder: Path) -> None:
    write_report(folder)
    with pytest.raises(InputError, match="is finished"):
        resume(folder)
