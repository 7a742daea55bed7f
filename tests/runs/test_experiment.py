from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import remnant.runs.experiment as experiment_module
from benchmarks.kills import differences, is_finished, kill_and_resume
from remnant.archives import read_archive, write_archive
from remnant.config import RunConfig, load_config
from remnant.data import DataConfig
from remnant.data.datasets import Dataset
from remnant.data.stream import StreamConfig
from remnant.errors import InputError
from remnant.files import only_writer, write_json
from remnant.images import ArrayImages, ImageSet
from remnant.memory import Memory, MemoryConfig
from remnant.methods import METHODS
from remnant.phases import StepReport
from remnant.recipes import load_recipe
from remnant.runs.experiment import resume, run
from remnant.training.launchers import is_main_process
from remnant.training.processes import TrainingConfig
from remnant.views.augment import AugmentConfig
from tests.support.pixel_method import Pixels, PixelsConfig, schedule
from tests.support.worlds import load_once

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


def tiny_config(**changes: Any) -> RunConfig:
    values = {
        "data": DataConfig(dataset="digits", images_per_class=8, image_size=8),
        "stream": StreamConfig(num_classes=4, num_tasks=2),
        "augment": AugmentConfig(train="flip"),
        "memory": MemoryConfig(budget="3images/class"),
        "method": PixelsConfig(first=schedule(3, 4)),
        "training": TrainingConfig(
            accelerator="cpu", threads=1, checkpoint_every_steps=5, log_every_steps=1
        ),
    }
    return RunConfig.model_validate({**values, **changes})


def add_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "pixels", Pixels)
    monkeypatch.setattr(experiment_module, "load_dataset", load_once)


@pytest.fixture(autouse=True)
def pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    add_pixels(monkeypatch)


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("draw_memory", "write_report"):
        monkeypatch.setattr(experiment_module, name, lambda *_: None)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as patch:
        add_pixels(patch)
        run(tiny_config(), folder)
    return folder


def result_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text())


class Stopped(BaseException):
    pass


class StopAt:
    def __init__(self, task: int, step: int, seconds_per_step: float = 0.0) -> None:
        self._place = (task, step)
        self._seconds_per_step = seconds_per_step

    def on_step(self, report: StepReport) -> None:
        time.sleep(self._seconds_per_step)
        if (report.task, report.step) == self._place:
            raise Stopped


def stop_at(folder: Path, task: int, step: int, seconds_per_step: float = 0.0) -> None:
    with pytest.raises(Stopped):
        run(tiny_config(), folder, watchers=(StopAt(task, step, seconds_per_step),))


# ---------------------------------------------------------------------------------- a whole run


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


# ------------------------------------------------------------------------------- starting a run


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


# ------------------------------------------------------------------------------------- resuming


def test_a_finished_run_is_not_resumed(finished: Path) -> None:
    with pytest.raises(InputError, match="is finished"):
        resume(finished)


def test_a_finished_run_without_its_page_gets_it_on_resume(finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished, tmp_path / "run")
    (folder / "report.html").unlink()
    left = folder / "figures" / ".matrix.svg.abc.remnant.tmp"
    left.touch()
    assert resume(folder).finished is True
    assert (folder / "report.html").exists()
    assert not left.exists()
    left.touch()
    with pytest.raises(InputError, match="is finished"):
        resume(folder)
    assert not left.exists()


def test_a_run_goes_on_with_the_threads_that_it_began_with(
    tmp_path: Path, no_page: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, used = tmp_path / "run", []
    stop_at(folder, 0, 7)
    for name, key, value in (("config", "training", None), ("environment", "threads", 2)):
        path = folder / f"{name}.json"
        values = json.loads(path.read_text())
        if key == "training":
            values["training"]["threads"] = value
        else:
            assert values[key] == 1
            values[key] = value
        write_json(path, values)
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    resume(folder)
    assert used[-1] == 2


def test_what_a_power_cut_made_of_a_line_is_removed(tmp_path: Path, no_page: None) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 0, 7)
    events = folder / "events.jsonl"
    content = bytearray(events.read_bytes())
    content[10:30] = bytes(20)
    events.write_bytes(content)
    resume(folder)
    lines = events.read_bytes().splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)
    assert json.loads(lines[-1])["event"]


def test_a_folder_that_is_no_run_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no config\.json"):
        resume(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="is not valid JSON"):
        resume(tmp_path)
    (tmp_path / "config.json").write_text('{"data": {"dataset": "digits"}, "from": "the future"}')
    with pytest.raises(InputError):
        resume(tmp_path)


@pytest.mark.parametrize(("task", "step"), [(0, 2), (0, 7), (0, 11), (1, 0), (1, 8), (1, 17)])
def test_a_stopped_run_resumes_exactly(
    finished: Path, tmp_path: Path, no_page: None, task: int, step: int
) -> None:
    folder = tmp_path / "run"
    stop_at(folder, task, step)
    torch.manual_seed(99)
    resume(folder)
    assert differences(finished, folder) == []


def test_a_damaged_newest_checkpoint_costs_time_but_no_bit(
    finished: Path, tmp_path: Path, no_page: None
) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 1, 12)
    newest = folder / "checkpoint" / "task-001-phase-0-step-00000010.safetensors"
    newest.write_bytes(newest.read_bytes()[:-5])
    resume(folder)
    assert differences(finished, folder) == []


def test_a_damaged_start_of_a_task_costs_time_but_no_bit(
    finished: Path, tmp_path: Path, no_page: None
) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 1, 12)
    start = folder / "checkpoint" / "task-001.safetensors"
    start.write_bytes(start.read_bytes()[:-5])
    resume(folder)
    assert differences(finished, folder) == []


def change_pixels(train: ImageSet) -> ImageSet:
    """Of one class, which comes last."""
    array = train.images.read(torch.arange(len(train)))
    array[train.labels == 3] ^= 1
    return replace(train, images=ArrayImages(array))


def leave_one_out(train: ImageSet) -> ImageSet:
    last = int(torch.nonzero(train.labels == 3)[-1])
    return train.select(torch.tensor([row for row in range(len(train)) if row != last]))


@pytest.mark.parametrize("change", [change_pixels, leave_one_out])
def test_data_that_changed_are_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[ImageSet], ImageSet]
) -> None:
    stop_at(tmp_path / "run", task=0, step=7)

    def load(config: DataConfig) -> Dataset:
        whole = load_once(config)
        return replace(whole, train=change(whole.train))

    monkeypatch.setattr(experiment_module, "load_dataset", load)
    with pytest.raises(InputError, match=r"images of .* changed since its last checkpoint"):
        resume(tmp_path / "run")


def rewrite_checkpoints(folder: Path, change: Callable[[dict[str, Any], Any], Any]) -> None:
    """Checkpoints with a right checksum, as a stranger may make them."""
    for path in (folder / "checkpoint").iterdir():
        arrays, metadata = read_archive(path, "checkpoint", 1)
        metadata = change(arrays, metadata)
        write_archive(path, "checkpoint", 1, arrays, metadata)


def without_origin(arrays: dict[str, Any], metadata: Any) -> Any:
    return {"progress": metadata["progress"]}


def with_odd_progress(arrays: dict[str, Any], metadata: Any) -> Any:
    return metadata | {"progress": {"seconds_per_task": 7}}


def as_a_list(arrays: dict[str, Any], metadata: Any) -> Any:
    return [metadata]


def with_nan(arrays: dict[str, Any], metadata: Any) -> Any:
    arrays["model/classifier.weight"] = arrays["model/classifier.weight"] * np.nan
    return metadata


def of_another_shape(arrays: dict[str, Any], metadata: Any) -> Any:
    arrays["model/classifier.weight"] = arrays["model/classifier.weight"][:, :5]
    return metadata


def of_another_type(arrays: dict[str, Any], metadata: Any) -> Any:
    arrays["model/classifier.weight"] = arrays["model/classifier.weight"].astype(np.float64)
    return metadata


def with_odd_momentum(arrays: dict[str, Any], metadata: Any) -> Any:
    for name in [name for name in arrays if name.startswith("optimizer/")]:
        arrays[f"optimizer/0/x{name[-3:]}"] = arrays.pop(name)[:1]
    return metadata


def with_an_odd_memory(arrays: dict[str, Any], metadata: Any) -> Any:
    if metadata.get("memory"):
        metadata["memory"]["names"] = ["8", "9"]
    return metadata


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (without_origin, "origin must be given"),
        (with_odd_progress, "progress: .* got 7"),
        (as_a_list, "cannot be used"),
        (with_nan, "not finite"),
        (of_another_shape, "must have shape"),
        (of_another_type, r"must be of torch\.float32"),
        (with_odd_momentum, "optimiser state that does not fit"),
        (with_an_odd_memory, "names other classes"),
    ],
)
def test_nonsense_with_a_right_checksum_is_told(
    tmp_path: Path, change: Callable[[dict[str, Any], Any], Any], told: str
) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 1, 7)
    rewrite_checkpoints(folder, change)
    with pytest.raises(InputError, match=told):
        resume(folder)


def test_checkpoints_that_are_all_damaged_are_an_input_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 1, 12)
    for path in (folder / "checkpoint").iterdir():
        path.write_bytes(b"")
    with pytest.raises(InputError, match=r"no checkpoint in .* can be read"):
        resume(folder)


def test_checkpoints_of_another_version_are_an_input_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 0, 7)
    for path in (folder / "checkpoint").iterdir():
        write_archive(path, "checkpoint", 99, {}, {})
    with pytest.raises(InputError, match="version 99"):
        resume(folder)


def test_a_config_that_was_edited_is_not_resumed(tmp_path: Path) -> None:
    stop_at(tmp_path / "run", task=1, step=1)
    values = json.loads((tmp_path / "run" / "config.json").read_text())
    write_json(tmp_path / "run" / "config.json", values | {"seed": values["seed"] + 1})
    with pytest.raises(InputError, match="changed since its last checkpoint"):
        resume(tmp_path / "run")


def test_a_run_of_another_remnant_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(tmp_path / "run", task=1, step=1)
    monkeypatch.setattr("remnant.runs.run_origin.__version__", "99.0.0")
    with pytest.raises(InputError, match=r"this is 99\.0\.0"):
        resume(tmp_path / "run")


@pytest.mark.parametrize("damage", ["cut", "deleted", "torn line"])
def test_a_log_that_lost_its_end_goes_on_from_its_last_whole_line(
    tmp_path: Path, no_page: None, damage: str
) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 0, 7)
    log = folder / "events.jsonl"
    if damage == "deleted":
        log.unlink()
    elif damage == "cut":
        log.write_bytes(log.read_bytes()[:200])
    else:
        log.write_bytes(log.read_bytes() + b'{"event": "st')
    resume(folder)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert events[-1]["event"] == "task_end"


def test_the_time_of_a_task_includes_what_passed_before_a_stop(
    tmp_path: Path, no_page: None
) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 0, 7, seconds_per_step=0.1)
    resume(folder)
    assert result_of(folder)["seconds_per_task"][0] > 0.5  # five steps before the checkpoint


def test_a_run_that_is_being_written_is_not_resumed_beside(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 0, 7)
    with only_writer(folder / "config.json"), pytest.raises(InputError, match="another process"):
        resume(folder)


def test_an_environment_lost_to_an_early_kill_is_written_on_resume(
    tmp_path: Path, no_page: None
) -> None:
    folder = tmp_path / "run"
    write_json(folder / "config.json", tiny_config().model_dump(mode="json"))
    resume(folder)
    assert "torch" in json.loads((folder / "environment.json").read_text())


def test_what_a_kill_after_the_last_task_left_undone_is_done_on_resume(
    finished: Path, tmp_path: Path, no_page: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise Stopped

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(experiment_module, "read_density", stop)
        with pytest.raises(Stopped):
            run(tiny_config(), folder)
    assert result_of(folder)["finished"] is False
    resume(folder)
    assert differences(finished, folder) == []


# ---------------------------------------------------------------------------------- real kills


def er_config(path: Path) -> Path:
    config = load_recipe("digits-er").model_dump(mode="json")
    config["data"] |= {"images_per_class": 8, "image_size": 8}
    config["stream"] = {"num_classes": 4, "num_tasks": 2}
    config["memory"] = {"budget": "3images/class"}
    config["method"]["first"] |= {"epochs": 20, "batch_size": 4}
    config["training"] |= {"threads": 1, "checkpoint_every_steps": 10, "log_every_steps": 1}
    write_json(path, config)
    return path


def kill_when_steps_are_done(arguments: list[str], log: Path, num_lines: int) -> None:
    """Start the program and kill it once its log has grown to so many lines."""
    command = [sys.executable, "-m", "remnant", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            if log.exists() and log.read_bytes().count(b"\n") >= num_lines:
                process.kill()
            time.sleep(0.002)


def test_two_kills_change_no_bit(tmp_path: Path, no_page: None) -> None:
    config = er_config(tmp_path / "tiny.json")
    run(load_config(config), tmp_path / "unbroken")
    folder = tmp_path / "broken"
    log = folder / "events.jsonl"
    kill_when_steps_are_done(["run", str(config), "--out", str(folder)], log, 37)
    assert not is_finished(folder)
    kill_when_steps_are_done(["resume", str(folder)], log, 120)
    assert not is_finished(folder)
    resume(folder)
    assert differences(tmp_path / "unbroken", folder) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_kills_at_random_moments_change_no_bit(tmp_path: Path) -> None:
    start = ["digits-er", "--set", "training.threads=1"]
    start += ["--set", "training.checkpoint_every_steps=20"]
    outcome = kill_and_resume(start, tmp_path, num_kills=20, seed=1)
    assert len(outcome.kills) == 20
    assert outcome.differences == []
