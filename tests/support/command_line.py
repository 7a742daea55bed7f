"""Running the command line inside the test's own process, and runs of a second to run."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from remnant import cli
from remnant.cli.console import parse_settings
from remnant.config import RunConfig, override
from remnant.phases import StepReport
from remnant.recipes import load_recipe
from remnant.runs import experiment

# 4 digits in 2 tasks, 6 images of each at 8 px, one epoch.
TINY = {
    "data.images_per_class": 6,
    "data.image_size": 8,
    "stream.num_classes": 4,
    "stream.num_tasks": 2,
    "method.first.epochs": 1,
    "training.threads": 1,
}
SETTINGS = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """What a command that cannot be carried out says, once that is all it does."""
        assert self.code == 2, f"exit code {self.code}: {self.out}{self.err}"
        assert not self.out
        assert self.err.startswith("remnant: ")
        assert self.err.count("\n") == 1
        assert "Traceback" not in self.err
        return self.err.removeprefix("remnant: ").rstrip("\n")


Command = Callable[..., Outcome]


def commander(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["remnant", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as leave:
            code = int(leave.code or 0)
        shown = capsys.readouterr()
        return Outcome(code, shown.out, shown.err)

    return run


def tiny_config(recipe: str = "digits-er", **changes: object) -> RunConfig:
    """A recipe made tiny; `changes` have underscores doubled in place of dots."""
    values = TINY | {key.replace("__", "."): value for key, value in changes.items()}
    return override(
        load_recipe(recipe), parse_settings([f"{key}={value}" for key, value in values.items()], {})
    )


class StopAt:
    """A watcher that stops the run, as a user would, at the first step of a task."""

    def __init__(self, task: int) -> None:
        self._task = task

    def on_step(self, report: StepReport) -> None:
        if report.task == self._task:
            raise KeyboardInterrupt


def stopped_run(folder: Path, config: RunConfig | None = None) -> Path:
    """A run folder that was left in the second task."""
    with pytest.raises(KeyboardInterrupt):
        experiment.run(config or tiny_config(), folder, watchers=(StopAt(1),))
    return folder


def write_pictures(folder: Path, counts: dict[str, int]) -> Path:
    """A folder of class folders with one-coloured pictures."""
    for level, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True)
        for index in range(count):
            picture = Image.new("RGB", (8, 8), (60 * level, index, 0))
            picture.save(folder / name / f"{index}.png")
    return folder


@contextmanager
def largest_file(num_bytes: int) -> Iterator[None]:
    """Within the block, the system refuses to write longer files, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
