"""Teach a store your photographs in a few updates, and compare with all of them at once.

    python examples/photos.py FOLDER [--encoder none] [--minutes 5] [--tune] [--updates 2]

FOLDER has `train/CLASS/*.jpg` and `test/CLASS/*.jpg`. The classes come in three updates, in the
order of their names. After each, the accuracy on the test images of all classes so far. With an
encoder, the last line is scikit-learn's logistic regression on the same features of all images at
once, which no incremental learner can expect to beat by much.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from remnant import Learner


def files_of(
    folder: Path, names: list[str], most: int | None = None
) -> tuple[list[Path], list[str]]:
    """The images of some classes, and a label for each."""
    found = [(path, name) for name in names for path in sorted((folder / name).iterdir())[:most]]
    return [path for path, _ in found], [name for _, name in found]


def teach(folder: Path, learner: Learner, updates: list[list[str]], most: int | None) -> None:
    known: list[str] = []
    for number, names in enumerate(updates, start=1):
        known += names
        began = time.process_time()
        learner.partial_fit(*files_of(folder / "train", names, most))
        seconds = time.process_time() - began
        accuracy = learner.score(*files_of(folder / "test", known))
        print(
            f"update {number}: {', '.join(names)}; {len(known)} classes, {accuracy:.1%} right, "
            f"{seconds / 60:.1f} minutes of processor time",
            flush=True,
        )


def compare(folder: Path, learner: Learner, names: list[str], most: int | None) -> None:
    """Logistic regression on the features of all images."""
    train, labels = files_of(folder / "train", names, most)
    test, expected = files_of(folder / "test", names)
    regression = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=2000))
    regression.fit(learner.features(train), labels)
    found = regression.predict(learner.features(test))
    share = float(np.mean(found == np.array(expected)))
    print(f"all at once, scikit-learn on the same features: {share:.1%} right")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", help="as for remnant.Learner; none trains from scratch")
    parser.add_argument("--minutes", type=float, help="of training per update, from scratch")
    parser.add_argument("--epochs", type=int, help="of each update, instead of minutes")
    parser.add_argument("--tune", action="store_true", help="tune the encoder's upper layers")
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--most", type=int, help="training images of each class")
    given = parser.parse_args()
    names = sorted(path.name for path in (given.folder / "train").iterdir() if path.is_dir())
    updates = [list(part) for part in np.array_split(names, given.updates)]
    method = "tuned" if given.tune else None
    learner = Learner(
        encoder=given.encoder, method=method, minutes=given.minutes, epochs=given.epochs
    )
    teach(given.folder, learner, updates, given.most)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "photos.remnant"
        learner.save(path)
        size, kept = path.stat().st_size / 2**20, sum(learner.memory_.counts)
        print(f"store: {size:.1f} MiB, {kept:,} images kept")
    if given.encoder != "none":
        compare(given.folder, learner, names, given.most)


if __name__ == "__main__":
    main()
