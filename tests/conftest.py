"""What holds in every test: fixed seeds and threads, nothing left running or changed."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch

from remnant.data import Dataset
from remnant.data.stream import TaskStream
from tests.support.command_line import Command, commander
from tests.support.run_folders import WriteRun, write_run_folder
from tests.support.worlds import NUM_THREADS, SEED_OFFSET, make_dataset, make_stream

# pytest names the test in the first; scikit-learn and torch set the others when first used.
_ENVIRONMENT_OF_OTHERS = {
    "PYTEST_CURRENT_TEST",
    "KMP_INIT_AT_FORK",
    "KMP_DUPLICATE_LIB_OK",
    "TORCHINDUCTOR_CACHE_DIR",
    "PYTORCH_NVML_BASED_CUDA_CHECK",
}
_SECONDS_TO_END = 5.0

# A slow or busy machine is no reason to fail.
hypothesis.settings.register_profile("remnant", deadline=None)
hypothesis.settings.load_profile("remnant")

# Files of tests that train or compare floats, which every processor rounds in its own way.
_NUMERIC = (
    *("conformance", "encoders", "golden", "methods", "models", "testing", "views"),
    *("test_losses.py", "test_metrics.py", "test_plugin.py", "probe/test_cues.py"),
    *("learner/test_learner.py", "learner/test_old_stores.py", "learner/test_onnx_export.py"),
    "learner/test_export_example.py",
    *("learner/test_pretrained.py", "learner/test_scikit_learn.py", "learner/test_upkeep.py"),
    *("memory/test_compiled_loop.py", "memory/test_selection.py", "memory/test_transform.py"),
    *("runs/test_old_run.py", "serving/test_frozen_store.py", "serving/test_requests.py"),
    "serving/test_teaching.py",
    *("training/test_batches.py", "training/test_devices.py", "training/test_optimizers.py"),
    *("training/test_task_loop.py", "training/test_trainer.py"),
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks `numeric` by folder or file, so that new tests there need no mark of their own."""
    numeric = [Path(__file__).parent / name for name in _NUMERIC]
    assert all(path.exists() for path in numeric), "tests/conftest.py names a file that is gone"
    for item in items:
        if any(item.path.is_relative_to(path) for path in numeric):
            item.add_marker(pytest.mark.numeric)


@pytest.fixture(autouse=True)
def clean_process() -> Iterator[None]:
    """Seeds before the test; after it, no new thread and no changed environment variable."""
    random.seed(SEED_OFFSET)
    np.random.seed(SEED_OFFSET)
    torch.manual_seed(SEED_OFFSET)
    torch.set_num_threads(NUM_THREADS)
    threads, environment = set(threading.enumerate()), _environment()
    yield
    torch.set_num_threads(NUM_THREADS)
    left = [thread for thread in threading.enumerate() if thread not in threads]
    for thread in left:
        thread.join(_SECONDS_TO_END)
    # tqdm, where it is installed, watches the bars of torch's exporter for as long as Python runs.
    names = [thread.name for thread in left if thread.is_alive() and thread.name != "tqdm_monitor"]
    assert not names, f"the test left threads running: {names}"
    changed = environment.items() ^ _environment().items()
    assert not changed, f"the test changed the environment: {sorted(changed)}"


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _ENVIRONMENT_OF_OTHERS}


@pytest.fixture
def dataset() -> Dataset:
    """Four classes of 16 x 16 images that one can tell apart by their brightness."""
    return make_dataset()


@pytest.fixture
def stream(dataset: Dataset) -> TaskStream:
    """Two tasks of two classes."""
    return make_stream(dataset)


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """The command line, in an empty folder, 80 columns wide, without data sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REMNANT_DATA", str(tmp_path / "no-data"))
    monkeypatch.setenv("COLUMNS", "80")
    return commander(monkeypatch, capsys)


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """`write_run(name, ...)` makes a run folder below `tmp_path` and returns it."""

    def write(name: str, **options: Any) -> Path:
        return write_run_folder(tmp_path / name, **options)

    return write
