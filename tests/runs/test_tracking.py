"""Claims about what trackers are told of a run."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import remnant
from remnant.phases import StepReport
from remnant.runs import experiment
from tests.support.command_line import SETTINGS, TINY, Command, StopAt, tiny_config

DOCUMENT = Path(__file__).parents[2] / "docs" / "tracking.md"


@pytest.fixture(autouse=True)
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "write_report", lambda *_: None)


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values by name, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    files = EventAccumulator(str(folder))
    files.Reload()
    return {
        name: [(event.step, event.value) for event in files.Scalars(name)]
        for name in files.Tags()["scalars"]
    }


def test_tensorboard_is_told_losses_rates_accuracies_and_bytes(
    command: Command, tmp_path: Path
) -> None:
    arguments = (*SETTINGS, "--set", "method.first.batch_size=4", "--track", "tensorboard")
    outcome = command("run", "digits-er", *arguments, "--out", "run")
    assert outcome.code == 0, outcome.err
    result = experiment.read_result(tmp_path / "run")
    found = scalars(tmp_path / "run" / "tensorboard")
    assert set(found) >= {"loss/total", "loss/classify", "training/images per second"}
    # The first and the last step of each task, over images: 12 new ones, then 12 and 12 exemplars.
    assert [step for step, _ in found["loss/total"]] == [4, 12, 16, 36]
    rates = [value for _, value in found["training/learning rate"]]
    assert rates[0] == pytest.approx(0.05)
    assert rates[1] < rates[0]
    assert found["accuracy/all classes seen"] == [
        (task + 1, pytest.approx(accuracy)) for task, accuracy in enumerate(result.accuracies)
    ]
    assert [step for step, _ in found["accuracy of task/1"]] == [1, 2]
    assert result.memory is not None
    assert found["memory/bytes"][-1] == (2, result.memory.used_bytes)


def test_a_resumed_run_goes_on_in_the_same_curves(command: Command, tmp_path: Path) -> None:
    from remnant.runs.tracking import TensorBoard

    with pytest.raises(KeyboardInterrupt):
        experiment.run(tiny_config(), tmp_path / "run", watchers=(TensorBoard(), StopAt(1)))
    assert command("resume", "run").code == 0
    steps = [step for step, _ in scalars(tmp_path / "run" / "tensorboard")["loss/total"]]
    assert steps == sorted(set(steps))
    assert len(steps) > 1


def test_without_the_package_a_sentence_says_what_to_install(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    sentence = command("run", "digits-er", "--track", "tensorboard").sentence
    assert 'pip install -c constraints.txt -e ".[track]"' in sentence
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------ watchers


class Noting(remnant.RunWatcher):
    def __init__(self) -> None:
        self.told: list[Any] = []

    def on_run_begin(self, folder: Path, config: dict[str, Any], images_done: int) -> None:
        self.told.append((folder.name, config["recipe"], images_done))

    def on_task_end(self, task: int, result: dict[str, Any]) -> None:
        self.told.append((task, len(result["accuracies"]), result["finished"]))

    def on_run_end(self, result: dict[str, Any]) -> None:
        self.told.append(result["finished"])

    def close(self) -> None:
        self.told.append("closed")


def test_a_watcher_is_told_of_the_run_its_tasks_and_its_end(tmp_path: Path) -> None:
    watcher = Noting()
    remnant.run("digits-er", tmp_path / "run", settings=TINY, progress=False, watchers=[watcher])
    assert watcher.told == [
        ("run", "digits-er", 0), (0, 1, False), (1, 2, False), True, "closed",
    ]  # fmt: skip


def test_a_watcher_is_closed_when_the_run_stops_and_told_where_it_goes_on(tmp_path: Path) -> None:
    first, second = Noting(), Noting()
    with pytest.raises(KeyboardInterrupt):
        experiment.run(tiny_config(), tmp_path / "run", watchers=(first, StopAt(1)))
    assert first.told[-1] == "closed"
    experiment.resume(tmp_path / "run", watchers=(second,))
    assert second.told[0] == ("run", "digits-er", 12)  # images of the first task


def test_a_watcher_without_other_verbs_still_works(tmp_path: Path) -> None:
    class Steps:
        def __init__(self) -> None:
            self.count = 0

        def on_step(self, report: StepReport) -> None:
            self.count += 1

    steps = Steps()
    experiment.run(tiny_config(), tmp_path / "run", watchers=(steps,))
    assert steps.count > 0


class FakeModule(types.ModuleType):
    """Notes every call of its functions."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def note(*arguments: Any, **named: Any) -> None:
            self.calls.append((name, arguments, named))

        return note


@pytest.mark.parametrize("module", ["wandb", "mlflow"])
def test_the_ten_lines_of_the_document_attach_a_tracker(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (code,) = [block for block in blocks if f"import {module}" in block]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    fake = FakeModule(module)
    monkeypatch.setitem(sys.modules, module, fake)
    monkeypatch.setattr(
        remnant, "run", lambda name, **options: run_tiny(name, tmp_path, **options), raising=False
    )
    exec(compile(code, str(DOCUMENT), "exec"), {})
    named = [name for name, _, _ in fake.calls]
    logs = "log" if module == "wandb" else "log_metrics"
    assert named.count(logs) > 2
    logged = [arguments[0] for name, arguments, _ in fake.calls if name == logs]
    assert sum("accuracy" in values for values in logged) == 2
    assert named[-1] in ("finish", "end_run")


def run_tiny(name: str, folder: Path, **options: Any) -> Any:
    from remnant.runs.python_api import run

    return run(name, folder / "run", settings=TINY, progress=False, **options)
