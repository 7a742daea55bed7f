"""D: SIGKILL at the n-th operation of an update or of a run, and the same command again.

    python -m tests.attacks.kill_points FOLDER SEED COUNT

One process imports everything, then forks one that dies and one that goes on, again and again:
starting Python costs more than the whole update.
"""

from __future__ import annotations

import importlib
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from remnant.learner import Learner, learn_into_store
from remnant.learner.work_folder import work_folder
from tests.attacks.failing_calls import FailingCalls
from tests.attacks.tally import Tally
from tests.support.small_learner import TINY, add_pixels, stripes

ONE_THREAD = TINY | {"threads": 1}


class KillingCalls(FailingCalls):
    """Counts operations on files, and dies at one of them."""

    def _wrap(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            if self.count == self._failing:
                os.kill(os.getpid(), signal.SIGKILL)
            self.count += 1
            return real(*arguments, **options)

        return call


def learn(store: Path) -> None:
    learn_into_store(store, *stripes("e"), **ONE_THREAD)


def in_a_fork(work: Callable[[], str]) -> str | None:
    """What `work` says in a process of its own; None if that was killed."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.write(writing, work().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(process, 0)
    return None if os.WIFSIGNALED(status) else said


def _count(store: Path) -> str:
    calls = KillingCalls()
    with calls.counting():
        learn(store)
    return f"{calls.count} {Learner.load(store).digest()}"


def _die(store: Path, moment: int) -> str:
    with KillingCalls(moment).counting():
        learn(store)
    return "it ended before it was killed"


def _digest(store: Path) -> str:
    return Learner.load(store).digest()


def _again(store: Path) -> str:
    learn(store)
    return _digest(store)


def kill_once(store: Path, folder: Path, moment: int, before: str, after: str) -> str | None:
    """What is wrong after a kill, if anything."""
    shutil.copytree(store.parent, folder)
    copy = folder / store.name
    said = in_a_fork(lambda: _die(copy, moment))
    if said is not None:
        return said or "it failed before it was killed"
    found = in_a_fork(lambda: _digest(copy))
    if found not in (before, after):
        return "the store is neither the old one nor the new one"
    # Killed after the work folder was gone, the update is done: another one would teach it twice.
    is_repeated = found == before or work_folder(copy).exists()
    if is_repeated and in_a_fork(lambda: _again(copy)) != after:
        return "the same command again gives another store"
    return None


def attack(folder: Path, seed: int, count: int) -> Tally:

    importlib.import_module("lightning_fabric")  # here, and not in every fork
    add_pixels()
    (folder / "made").mkdir(parents=True)
    store, tally, chance = folder / "made" / "stripes.remnant", Tally(), random.Random(seed)

    def make() -> str:
        learn_into_store(store, *stripes("a", "c"), **ONE_THREAD)
        return _digest(store)

    before = in_a_fork(make)
    assert before, "the first update failed"
    shutil.copytree(store.parent, folder / "counted")
    counted = in_a_fork(lambda: _count(folder / "counted" / store.name))
    assert counted, "the undisturbed update failed"
    total, after = counted.split()
    moments = list(range(int(total)))
    for moment in chance.sample(moments, min(count, len(moments))):
        problem = kill_once(store, folder / "killed", moment, before, after)
        what = f"killed at operation {moment} of {total}"
        tally.add(None if problem is None else f"{what}: {problem}")
        shutil.rmtree(folder / "killed")
    return tally


def attack_from_outside(folder: Path, seed: int, count: int) -> Tally:
    """The attack in a process of its own: one in which torch has run must not fork."""
    command = [sys.executable, "-m", "tests.attacks.kill_points", str(folder), str(seed)]
    ended = subprocess.run(
        [*command, str(count)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    tried, *problems = ended.stdout.splitlines() or ["0"]
    if ended.returncode != 0:
        problems.append(ended.stderr)
    return Tally(int(tried), problems)


def main() -> None:
    tally = attack(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    print(tally.tried)
    for problem in tally.problems:
        print(problem)


if __name__ == "__main__":
    main()
