"""A whole run: what it leaves in its folder, and what it needs to start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.kills import differences
from remnant.config import load_config
from remnant.data import DataConfig
from remnant.data.stream import StreamConfig
from remnant.errors import InputError
from remnant.memory import Memory
from remnant.runs.experiment import run
from remnant.training.launchers import is_main_process
from tests.support.pixel_experiment import result_of, tiny_config

pytestmark = pytest.mark.usefixtures("pixels")
SPECIFIED = {
    "method",
    "dataset",
    "seed",
    "task_sizes",
    "accuracy_matrix",
    "average_accuracy",
    "last_accuracy",
    "forgetting",
    "top5_average",
    "parameters",
    "memory",
    "train_seconds",
    "train_images_per_second",
    "finished",
}


# -------------------------------------------------------------------------------------- a whole run


def test_a_run_folder_holds_what_the_specification_names(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert names >= {
        "config.json",
        "environment.json",
        "events.jsonl",
        "result.json",
        "memory.safetensors",
        "checkpoint",
        "figures",
        "report.html",
    }
    assert list((finished / "figures").glob("*.svg"))
    assert list((finished / "figures").glob("*.png"))
    assert not list(finished.rglob(".*"))


def test_the_result_tells_what_the_specification_names(finished: Path) -> None:
    result = result_of(finished)
    assert set(result) >= SPECIFIED
    assert result["finished"] is True
    assert result["task_sizes"] == [2, 2]
    assert [len(row) for row in result["accuracy_matrix"]] == [1, 2]
    assert result["parameters"] == 4 * (8 * 8 * 3 + 1)
    memory = result["memory"]
    assert set(memory) >= {"budget_bytes", "used_bytes", "exemplars_per_class", "ledger"}
    assert memory["budget_bytes"] == 4 * 3 * 8 * 8 * 3
    assert memory["exemplars_per_class"] == [3, 3, 3, 3]
    assert memory["digest"] == Memory.load(finished / "memory.safetensors").digest()


def test_the_events_tell_every_task_and_step(finished: Path) -> None:
    lines = (finished / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    kinds = [event["event"] for event in events]
    # 16 images a task in batches of 4, and 6 exemplars more in the second.
    expected = ["task_begin", *["step"] * 12, "task_end", "task_begin", *["step"] * 18, "task_end"]
    assert kinds == expected


def test_the_config_on_file_runs_to_the_identical_result(
    finished: Path, tmp_path: Path, no_page: None
) -> None:
    config = load_config(finished / "config.json")
    assert config == tiny_config()
    run(config, tmp_path / "again")
    assert differences(finished, tmp_path / "again") == []


def test_another_seed_gives_another_result(finished: Path, tmp_path: Path, no_page: None) -> None:
    run(tiny_config(seed=1), tmp_path / "run")
    assert differences(finished, tmp_path / "run") != []


# ----------------------------------------------------------------------------------- starting a run


def test_a_folder_in_use_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    (tmp_path / ".draft.tmp").write_text("precious")
    with pytest.raises(InputError, match=r"is not empty.*remnant resume"):
        run(tiny_config(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.tex", ".draft.tmp"}
    with pytest.raises(InputError, match="it is a file"):
        run(tiny_config(), tmp_path / "thesis.tex")


def test_hidden_files_of_others_make_a_folder_not_empty(tmp_path: Path) -> None:
    (tmp_path / ".draft.tmp").write_text("precious")
    with pytest.raises(InputError, match="is not empty"):
        run(tiny_config(), tmp_path)
    assert (tmp_path / ".draft.tmp").exists()


def test_a_folder_with_nothing_but_a_killed_start_is_empty(tmp_path: Path, no_page: None) -> None:
    (tmp_path / ".config.json.ab12cd34.remnant.tmp").write_text("{")
    assert run(tiny_config(), tmp_path).finished
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("is_there", [True, False])
def test_a_run_that_cannot_start_leaves_nothing_behind(tmp_path: Path, is_there: bool) -> None:
    folder = tmp_path / "run"
    if is_there:
        folder.mkdir()
    data = DataConfig(dataset="cifar100", root=str(tmp_path / "nowhere"))
    config = tiny_config(data=data, stream=StreamConfig(num_classes=4, num_tasks=2))
    with pytest.raises(InputError, match="does not exist"):
        run(config, folder)
    assert folder.exists() == is_there
    assert not is_there or not list(folder.iterdir())


@pytest.mark.parametrize(
    ("environment", "is_main"),
    [
        ({}, True),
        ({"LOCAL_RANK": "0", "NODE_RANK": "0"}, True),
        ({"LOCAL_RANK": "1", "NODE_RANK": "0"}, False),
        ({"NODE_RANK": "1"}, False),
        ({"GROUP_RANK": "1", "LOCAL_RANK": "0"}, False),
        ({"RANK": "0", "LOCAL_RANK": "0"}, True),
        ({"RANK": "2", "LOCAL_RANK": "0"}, False),
    ],
)
def test_one_process_of_all_nodes_writes_the_folder(
    environment: dict[str, str], is_main: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_main_process() == is_main
