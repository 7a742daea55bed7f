"""D: SIGKILL within a run, at named points and at operations on files, and `resume`.

A run is killed once or several times in a row, also while it resumes; what it comes to must be that
of a run that was never stopped, bit for bit.
"""

from __future__ import annotations

import importlib
import os
import random
import shutil
import signal
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.kills import differences
from remnant.config import RunConfig
from remnant.methods import METHODS
from remnant.runs.experiment import Experiment, resume, run
from remnant.runs.run_folder import CONFIG, REPORT, is_finished
from tests.attacks.failing_calls import FailingCalls
from tests.attacks.kill_points import in_a_fork, in_own_process, print_tally
from tests.attacks.tally import Tally
from tests.support.tiny_methods import run_config

METHOD_NAMES = ("er", "icarl", "bimae", "expandable")
_MOST_IN_A_ROW = 4


class KilledRun(FailingCalls):
    """Counts what a run does by name, and dies at one of them."""

    def __init__(self, config: RunConfig, dying: tuple[str, int] | None = None) -> None:
        super().__init__()
        self._config = config
        self._dying = dying
        self.counts: Counter[str] = Counter()

    def note(self, name: str) -> None:
        if self._dying == (name, self.counts[name]):
            os.kill(os.getpid(), signal.SIGKILL)
        self.counts[name] += 1

    def _wrap(self, real: Any, name: str = "file operation") -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.note(name)
            return real(*arguments, **options)

        return call

    def go_on(self, folder: Path) -> None:
        """Begin the run in `folder`, or resume it."""
        method = METHODS[self._config.method.name]
        points = [
            (method, "loss", "step"),
            (method, "end_task", "selection"),
            (Experiment, "_evaluate", "evaluation"),
            (Experiment, "_restore", "restoring"),
            (Experiment, "_finish", "end"),
        ]
        with ExitStack() as stack, self.counting():
            for owner, attribute, name in points:
                wrapped = self._wrap(getattr(owner, attribute), name)
                stack.enter_context(mock.patch.object(owner, attribute, wrapped))
            if not (folder / CONFIG).exists():
                run(self._config, folder)
            elif not (is_finished(folder) and (folder / REPORT).exists()):
                resume(folder)


def _count(config: RunConfig, folder: Path) -> str:
    unbroken = KilledRun(config)
    unbroken.go_on(folder)
    return " ".join(f"{name.replace(' ', '_')}={n}" for name, n in unbroken.counts.items())


def _die(config: RunConfig, folder: Path, dying: tuple[str, int]) -> str:
    KilledRun(config, dying).go_on(folder)
    return "ended"


def kill_and_resume(
    config: RunConfig, unbroken: Path, folder: Path, deaths: list[tuple[str, int]]
) -> tuple[int, str | None]:
    """How often the run was killed, and what is wrong with what it came to, if anything."""
    num_killed = 0
    for dying in deaths:
        said = in_a_fork(lambda dying=dying: _die(config, folder, dying))
        if said is None:
            num_killed += 1
        elif said != "ended":
            return num_killed, f"it failed before it was killed at {dying}"
    if in_a_fork(lambda: _die(config, folder, ("never", 0))) != "ended":
        return num_killed, "it does not go on"
    found = in_a_fork(lambda: "; ".join(differences(unbroken, folder)) or "same")
    return num_killed, None if found == "same" else found or "it cannot be compared"


def attack(folder: Path, seed: int, count: int) -> Tally:
    """About `count` kills, one to four to a run; what is tried are kills."""
    importlib.import_module("lightning_fabric")
    folder.mkdir(parents=True)
    chance, tally = random.Random(seed), Tally()
    counts: dict[str, dict[str, int]] = {}
    while tally.tried < count:
        name = chance.choice(METHOD_NAMES)
        config, unbroken = run_config(name), folder / f"unbroken-{name}"
        if name not in counts:
            counted = in_a_fork(partial(_count, config, unbroken))
            assert counted, f"the undisturbed run of {name} failed"
            counts[name] = {
                point.replace("_", " "): int(number)
                for point, number in (part.split("=") for part in counted.split())
            }
        deaths = [
            (point, chance.randrange(counts[name][point]))
            for point in chance.choices(sorted(counts[name]), k=chance.randint(1, _MOST_IN_A_ROW))
        ]
        num_killed, problem = kill_and_resume(config, unbroken, folder / "killed", deaths)
        tally.tried += num_killed
        if problem is not None:
            tally.problems.append(f"{name} of seed {seed}, killed at {deaths}: {problem}")
        shutil.rmtree(folder / "killed", ignore_errors=True)
    return tally


def attack_from_outside(folder: Path, seed: int, count: int) -> Tally:
    return in_own_process("tests.attacks.run_kills", folder, seed, count)


if __name__ == "__main__":
    print_tally(attack)
