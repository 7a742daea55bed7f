"""What is shown while a run trains."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from rich.console import Console

from remnant.phases import StepReport
from remnant.terminal.progress import EpochLines, ProgressBar, TimeLeft, Window, watch


@dataclass
class Clock:
    """A clock that the test sets."""

    now: float = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("remnant.terminal.progress.time.monotonic", clock.monotonic)
    return clock


def step(task: int, step: int, num_steps: int = 10, phase: str = "train") -> StepReport:
    """A step of ten images at ten images per second; an epoch has two steps."""
    return StepReport(
        task=task,
        phase=phase,
        epoch=step // 2,
        num_epochs=num_steps // 2,
        step=step,
        num_steps=num_steps,
        terms={"classify": float(step), "distill": 1.0},
        lr=0.1,
        images=10,
        images_per_second=10.0,
        is_epoch_end=step % 2 == 1,
    )


def steps(clock: Clock, left: TimeLeft, reports: Iterator[StepReport]) -> None:
    for report in reports:
        clock.now += 1
        left.on_step(report)


def test_time_left_includes_all_tasks(clock: Clock) -> None:
    left = TimeLeft([100, 100, 50])
    steps(clock, left, (step(0, index) for index in range(5)))
    assert left.seconds == pytest.approx(5 + 10 + 5)
    assert left.share_done == pytest.approx(50 / 250)
    assert str(left) == "20 s left"


def test_time_between_tasks_counts(clock: Clock) -> None:
    left = TimeLeft([100, 100])
    steps(clock, left, (step(0, index) for index in range(10)))
    clock.now += 9  # choosing exemplars, evaluating
    steps(clock, left, iter([step(1, 0)]))
    assert left.seconds == pytest.approx(90 * (20 / 110))


def test_an_unplanned_phase_is_expected_again_in_later_tasks(clock: Clock) -> None:
    left = TimeLeft([100, 100])  # the plan knows of one phase
    steps(clock, left, (step(0, index) for index in range(10)))
    steps(clock, left, (step(0, index, 4, "balance") for index in range(4)))
    steps(clock, left, iter([step(1, 0)]))
    assert left.images_left == pytest.approx(140 - 10)


def test_a_resumed_run_has_only_the_rest_left(clock: Clock) -> None:
    left = TimeLeft([100, 100, 100])
    steps(clock, left, iter([step(1, 4)]))
    assert left.seconds == pytest.approx(5 + 10)
    assert left.share_done == pytest.approx(150 / 300)


def test_nothing_is_left_at_the_end(clock: Clock) -> None:
    left = TimeLeft([100])
    steps(clock, left, (step(0, index) for index in range(10)))
    assert left.seconds == 0
    assert left.share_done == 1


@pytest.mark.parametrize(
    ("images", "text"), [(590, "59 s left"), (9_000, "15 min left"), (90_000, "2.5 h left")]
)
def test_the_unit_of_the_time_left_fits_its_size(clock: Clock, images: int, text: str) -> None:
    left = TimeLeft([images + 10])
    steps(clock, left, iter([step(0, 0, 1)]))
    assert str(left) == text


def test_losses_are_means_over_the_steps_that_have_them() -> None:
    window = Window()
    window.add(step(0, 2))
    window.add(step(0, 3))
    assert window.losses == "classify 2.500  distill 1.000"
    assert window.speed == "10 images/s"


def test_without_a_terminal_each_epoch_prints_a_line() -> None:
    console = Console(file=io.StringIO(), width=40)
    with EpochLines([100, 100], console) as lines:
        for index in range(4):
            lines.on_step(step(0, index))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue().splitlines()
    assert [line.split("  ")[:3] for line in shown] == [
        ["task 1/2 train", "epoch 1/5", "classify 0.500"],
        ["task 1/2 train", "epoch 2/5", "classify 2.500"],
    ]


def test_the_bar_fits_in_80_columns() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    bar = ProgressBar([100] * 50, console)
    with bar:
        bar.on_step(step(11, 0, 800))
        console.print(bar._bar.get_renderable())
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    for part in ("task 12/50 train", "epoch 1/400", "images/s", "left", "distill 1.000"):
        assert part in shown
    assert "…" not in shown


def test_only_the_main_process_shows_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    with watch([10]) as watcher:
        watcher.on_step(step(task=0, step=9))
    assert capsys.readouterr().err == ""
