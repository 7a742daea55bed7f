"""SIGKILL `remnant learn` at random moments: is the store whole after each, and right in the end?

    python -m benchmarks.store_kills --kills 30 --seed 0

A store is taught the digits 0 to 4 and then 5 to 9, as folders of images. Every start of the
command gets a random moment to die at, and the same command is typed again. After each kill the
store must be what it was before the update, or what it is after, and answer so; when both updates
are done it must equal one that was never disturbed, and another store begins.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from benchmarks.kills import finish, kill_after
from remnant.learner import Learner
from remnant.learner.work_folder import work_folder
from remnant.training.checkpoints import Checkpoints

FOLDERS = {"first": range(5), "second": range(5, 10)}
SETTINGS = [
    *("--epochs", "12", "--batch-size", "16", "--budget", "1KiB/class"),
    *("--set", "method.network.width=32", "--set", "method.network.head_width=8"),
    *("--set", "method.network.mlp_width=64", "--set", "method.network.fusion_mlp_width=64"),
    *("--set", "training.checkpoint_every_steps=10", "--set", "training.threads=1"),
]
ASKED = "asked"  # a folder of images that nobody was taught with


@dataclass(frozen=True)
class Knowing:
    """What a store that was read says it knows."""

    digest: str
    answers: bytes  # probabilities of the images in `ASKED`


@dataclass
class Outcome:
    num_stores: int = 0
    stages: list[str] = field(default_factory=list)  # at which it was killed
    problems: list[str] = field(default_factory=list)


def write_folders(folder: Path, per_class: int = 20) -> None:
    pixels, labels = load_digits(return_X_y=True)
    images = np.rint(np.reshape(pixels, (-1, 8, 8)) * 15.9375).astype(np.uint8)
    for name, taught in (*FOLDERS.items(), (ASKED, range(10))):
        for digit in taught:
            first = 0 if name == ASKED else 3
            last = 3 if name == ASKED else 3 + per_class
            target = folder / name / str(digit)
            target.mkdir(parents=True)
            for index, image in enumerate(images[labels == digit][first:last]):
                Image.fromarray(image).save(target / f"{index:03d}.png")


def learn(store: Path, name: str) -> list[str]:
    """The command, without its program."""
    return ["learn", str(store), str(store.parent / name), *SETTINGS]


def know(store: Path) -> Knowing | None:
    """What a store knows; None where there is none."""
    if not store.exists():
        return None
    learner = Learner.load(store).set_params(threads=1)
    return Knowing(learner.digest(), learner.predict_proba(store.parent / ASKED).tobytes())


def kill_and_repeat(
    folder: Path, num_kills: int, seed: int, tell: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Teach one store undisturbed, then others with kills, all in `folder`."""
    write_folders(folder)
    updates = [learn_undisturbed(folder / "undisturbed.remnant", name) for name in FOLDERS]
    chance, outcome, before = random.Random(seed), Outcome(), None
    while len(outcome.stages) < num_kills:
        store = folder / f"store-{outcome.num_stores}.remnant"
        for name, (after, seconds) in zip(FOLDERS, updates, strict=True):
            moments = (chance.uniform(0, 0.9 * seconds) for _ in range(num_kills))
            for moment in moments:
                if len(outcome.stages) == num_kills or is_over(store, after):
                    break
                if not kill_after(learn(store, name), moment):
                    break
                found = know(store)
                outcome.stages.append(stage(store, is_done=found == after))
                tell(f"{store.stem}, {name}, {moment:.1f} s: {outcome.stages[-1]}")
                if found not in (before, after):
                    outcome.problems.append(f"{store.stem}: neither the old store nor the new one")
            if not is_over(store, after):
                finish(learn(store, name))
            if know(store) != after:
                outcome.problems.append(f"{store.stem}: other than the undisturbed after {name}")
            before = after
        # What a kill leaves of a removal is swept up by the next update, of which there is none.
        left = [path.name for path in folder.glob(f".{store.name}*") if ".work." not in path.name]
        outcome.problems += [f"left behind: {name}" for name in left]
        outcome.num_stores, before = outcome.num_stores + 1, None
    return outcome


def learn_undisturbed(store: Path, name: str) -> tuple[Knowing | None, float]:
    """What a store knows after an update, and the seconds that it takes."""
    began = time.monotonic()
    finish(learn(store, name))
    return know(store), time.monotonic() - began


def is_over(store: Path, after: Knowing | None) -> bool:
    """Whether an update is done and cleared away, so that another command would teach it again."""
    return know(store) == after and not has_checkpoints(store)


def has_checkpoints(store: Path) -> bool:
    return any(work_folder(store).glob("*.safetensors"))


def stage(store: Path, *, is_done: bool) -> str:
    """How far an update had come, by what is on disk."""
    if is_done:
        return "after the store was replaced"
    if not has_checkpoints(store):
        return "before the first checkpoint"
    points = Checkpoints(work_folder(store)).points()
    if points[-1].is_end:
        return "after training, before the store was replaced"
    return "during training"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = kill_and_repeat(
            Path(folder), arguments.kills, arguments.seed, lambda line: print(line, flush=True)
        )
    for name, count in Counter(outcome.stages).most_common():
        print(f"| {name} | {count} |")
    verdict = "readable and right after each, equal to the undisturbed store in the end"
    if outcome.problems:
        verdict = "PROBLEMS: " + "; ".join(outcome.problems)
    print(f"{len(outcome.stages)} kills over {outcome.num_stores} stores: {verdict}")
    sys.exit(1 if outcome.problems else 0)


if __name__ == "__main__":
    main()
