"""A: a power cut at any moment of save, learn, forget, undo and of a run's checkpoints."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.kills import differences
from remnant.config import RunConfig
from remnant.data import DataConfig
from remnant.data.stream import StreamConfig
from remnant.errors import InputError
from remnant.learner import Learner, forget_in_store, learn_into_store
from remnant.learner.store import undo_in_store
from remnant.memory import MemoryConfig
from remnant.runs.experiment import resume, run
from remnant.runs.run_folder import CONFIG, REPORT, is_finished
from remnant.training.checkpoints import Checkpoints, Point, phase_end
from remnant.training.processes import TrainingConfig
from remnant.views.augment import AugmentConfig
from tests.attacks.recorded_disk import RecordedDisk
from tests.attacks.tally import Tally
from tests.support.pixel_method import PixelsConfig, schedule
from tests.support.small_learner import TINY, stripes

STORE = "stripes.remnant"


def save(store: Path) -> None:
    learner = Learner.load(store)
    learner.forget("c")  # so that what is saved is something else
    learner.save(store)


def learn(store: Path) -> None:
    learn_into_store(store, *stripes("e"), **TINY | {"epochs": 1})


def forget(store: Path) -> None:
    forget_in_store(store, "a")


def undo(store: Path) -> None:
    undo_in_store(store)


COMMANDS: dict[str, Callable[[Path], None]] = {
    "save": save,
    "learn": learn,
    "forget": forget,
    "undo": undo,
}


def make_store(folder: Path) -> Path:
    """A store of two updates, so that the last can be undone."""
    store = folder / STORE
    learn_into_store(store, *stripes("a"), **TINY | {"epochs": 1})
    learn_into_store(store, *stripes("c"), **TINY | {"epochs": 1})
    return store


def cut_power(
    name: str, store: Path, folder: Path, seed: int, most: int, without: str = ""
) -> Tally:
    """Every moment of a command, `most` states each.

    The store must be the old one or the new one, whole, and the new one after the end.
    """
    chance, tally = random.Random(seed), Tally()
    shutil.copytree(store.parent, folder)
    copy = folder / store.name
    disk, old = RecordedDisk(folder), copy.read_bytes()
    with disk.recording(without=without):
        COMMANDS[name](copy)
    new, end = copy.read_bytes(), len(disk.changes)
    for moment, files in disk.states(chance, most):
        found = files.get(copy)
        if found not in (old, new):
            what = "no store" if found is None else "a mixed store"
            tally.add(f"{name}, operation {moment} of {end}: {what}")
        elif moment == end and found != new:
            tally.add(f"{name}: done, yet the old store")
        else:
            tally.add(None)
    return tally


# ------------------------------------------------------------------------------------ checkpoints

POINTS = [
    Point(0, 0, 5), phase_end(0, 0), Point(1), Point(1, 0, 5), Point(1, 0, 10), phase_end(1, 0),
    Point(2), Point(2, 0, 5),
]  # fmt: skip


def cut_power_of_a_run(folder: Path, seed: int, most: int, without: str = "") -> Tally:
    """Every moment of writing checkpoints: the newest that can be read is never an older one
    than the last that was done."""
    chance, tally = random.Random(seed), Tally()
    folder.mkdir()
    disk, checkpoints = RecordedDisk(folder), Checkpoints(folder / "checkpoint")
    done: list[tuple[int, Point]] = []
    with disk.recording(without=without):
        for point in POINTS:
            checkpoints.save(point, {"weights": np.arange(3)}, {"name": point.file_name})
            done.append((len(disk.changes), point))
    for number, (moment, files) in enumerate(disk.states(chance, most)):
        last = max((point for end, point in done if end <= moment), default=None)
        place = folder.with_name(f"{folder.name}-{number}") / "checkpoint"
        tally.add(_explain_loss(place, folder / "checkpoint", files, last))
        shutil.rmtree(place.parent)
    return tally


def _explain_loss(
    place: Path, original: Path, files: dict[Path, bytes], last: Point | None
) -> str | None:
    place.mkdir(parents=True)
    for path, content in files.items():
        if path.parent == original:
            (place / path.name).write_bytes(content)
    try:
        found = Checkpoints(place).newest_readable()
    except InputError as error:
        return f"checkpoints: {error}"
    if last is not None and (found is None or found < last):
        return f"checkpoints: {last} was done, but {found} is read"
    return None


# -------------------------------------------------------------------------------------- run folders


def small_run() -> RunConfig:
    return RunConfig(
        data=DataConfig(dataset="digits", images_per_class=8, image_size=8),
        stream=StreamConfig(num_classes=4, num_tasks=2),
        augment=AugmentConfig(train="flip"),
        memory=MemoryConfig(budget="3images/class"),
        method=PixelsConfig(first=schedule(3, 4)),
        training=TrainingConfig(
            accelerator="cpu", threads=1, checkpoint_every_steps=5, log_every_steps=1
        ),
    )


def cut_power_and_resume(folder: Path, seed: int, count: int, without: str = "") -> Tally:
    """States of a whole run folder: each is resumed, and comes to what the run came to."""
    chance, tally = random.Random(seed), Tally()
    folder.mkdir()
    disk, config = RecordedDisk(folder), small_run()
    with disk.recording(without=without):
        run(config, folder / "run")
    states = list(disk.states(chance, 1))
    for moment, files in chance.sample(states, min(count, len(states))):
        place = folder.with_name(f"{folder.name}-cut")
        for path, content in files.items():
            copy = place / path.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
        tally.add(_explain_end(config, folder / "run", place / "run", moment))
        shutil.rmtree(place, ignore_errors=True)
    return tally


def _explain_end(config: RunConfig, expected: Path, found: Path, moment: int) -> str | None:
    try:
        if not (found / CONFIG).exists():
            run(config, found)
        elif not (is_finished(found) and (found / REPORT).exists()):
            resume(found)
        problems = differences(expected, found)
    except (InputError, OSError, ValueError) as error:
        problems = [f"{type(error).__name__}: {error}"]
    return f"a run cut at {moment}: {'; '.join(problems)}" if problems else None


def attack(folder: Path, seed: int, count: int) -> Tally:
    """About `count` states, of all commands and of a run."""
    (folder / "made").mkdir(parents=True)
    store, tally = make_store(folder / "made"), Tally()
    most = max(1, count // 8)  # at a moment: about eight have more different states than that
    for name in COMMANDS:
        tally.join(cut_power(name, store, folder / name, seed, most))
    tally.join(cut_power_of_a_run(folder / "run", seed, most))
    tally.join(cut_power_and_resume(folder / "resumed", seed, max(2, count // 50)))
    return tally


def controls(folder: Path, seed: int) -> Tally:
    """Writers that leave out a sync, which must be noticed: a problem is one that is not."""
    (folder / "made").mkdir(parents=True)
    store, tally = make_store(folder / "made"), Tally()
    for without in ("files", "folders"):
        for name in ("save", "learn", "forget"):
            place = folder / f"{name}-{without}"
            found = cut_power(name, store, place, seed, 8, without)
            tally.add(None if found.problems else f"{name} without syncs of {without}: not noticed")
        found = cut_power_of_a_run(folder / f"run-{without}", seed, 8, without)
        tally.add(None if found.problems else f"run without syncs of {without}: not noticed")
    return tally
