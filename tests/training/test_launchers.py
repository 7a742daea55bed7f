"""Which processes are started by whom, from the environment that each launcher gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from remnant.errors import InputError
from remnant.training import launchers
from remnant.training.launchers import Launch, check_count, find_launch, may_tell

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "x",
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
}
SRUN = {
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_NAME": "train",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "8",
    "SLURM_NNODES": "2",
}


@pytest.fixture(autouse=True)
def nobody_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {*TORCHRUN, *SRUN, "NODE_RANK", "GROUP_RANK"}:
        monkeypatch.delenv(name, raising=False)


def set_all(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("environment", "launch"),
    [
        ({}, None),
        (TORCHRUN, Launch(3, 4, 2)),
        (SRUN, Launch(5, 8, 4)),
        (SRUN | TORCHRUN, Launch(3, 4, 2)),  # torchrun started by srun
        (SRUN | {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1"}, Launch(5, 2, 2)),
        (SRUN | {"SLURM_NTASKS": "1", "SLURM_PROCID": "0"}, None),
        (SRUN | {"SLURM_JOB_NAME": "interactive"}, None),
        ({name: value for name, value in SRUN.items() if name != "SLURM_STEP_ID"}, None),
    ],
)
def test_who_started_the_processes(environment: dict[str, str], launch: Launch | None) -> None:
    assert find_launch(environment) == launch


def test_the_first_task_of_slurm_is_the_main_process(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, SRUN)
    assert not launchers.is_main_process()
    monkeypatch.setenv("SLURM_PROCID", "0")
    assert launchers.is_main_process()


def test_slurm_must_have_started_as_many_as_the_config_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_all(monkeypatch, SRUN)
    check_count(8)
    with pytest.raises(InputError, match="it started 8, not 2"):
        check_count(2)


@pytest.mark.parametrize(
    ("environment", "tells"),
    [({}, True), (TORCHRUN, False), (TORCHRUN | {"LOCAL_RANK": "0"}, True), (SRUN, False)],
)
def test_before_processes_have_met_one_on_each_machine_tells(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], tells: bool, tmp_path: Path
) -> None:
    set_all(monkeypatch, environment)
    assert may_tell(tmp_path) == tells
    assert [*tmp_path.iterdir()] == []
