"""Teach handwritten digits 0 to 4, then 5 to 9, and see what is remembered of them.

    python examples/digits_in_two_steps.py --out digits

No download: the digits come with scikit-learn. Writes digits.remnant, the store, and digits.png,
the images that are kept. With --codec coded-patches a quarter of each is kept, and the picture
shows below it what the network makes of that when it learns the next classes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import remnant
from remnant.reports import draw_gallery

FIRST, SECOND = range(5), range(5, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--budget", default="2KiB/class", help="memory for what is kept")
    parser.add_argument("--codec", help="how it is stored; by default that is chosen")
    parser.add_argument("--epochs", type=int, default=20, help="of each of the two steps")
    parser.add_argument("--width", type=int, help="of the network; by default it is chosen")
    parser.add_argument("--out", default="digits", help="name of the files, without ending")
    arguments = parser.parse_args()

    pixels, labels = load_digits(return_X_y=True)
    images = np.reshape(pixels, (-1, 8, 8)) / 16  # floats from 0 to 1
    is_test = np.arange(len(labels)) % 5 == 0

    # Digits must not be mirrored, hence crops alone.
    learner = remnant.Learner(
        arguments.budget,
        codec=arguments.codec,
        epochs=arguments.epochs,
        width=arguments.width,
        augment="crop",
    )
    for taught in (FIRST, SECOND):
        chosen = np.isin(labels, taught) & ~is_test
        learner.partial_fit(images[chosen], labels[chosen])
        print(f"taught {span(taught)} with {chosen.sum()} images, which may be deleted now")
        for group in (FIRST, SECOND) if taught is SECOND else (FIRST,):
            asked = np.isin(labels, group) & is_test
            print(f"  right on {span(group)}: {learner.score(images[asked], labels[asked]):.1%}")

    store = Path(f"{arguments.out}.remnant")
    learner.save(store)
    draw(learner, Path(f"{arguments.out}.png"))
    kept = learner.memory_
    assert kept is not None, "this method keeps exemplars"
    print(f"kept: {sum(kept.counts)} exemplars in {kept.nbytes:,} bytes ({arguments.out}.png)")
    print(f"store: {store}, {store.stat().st_size:,} bytes")


def span(taught: range) -> str:
    return f"{taught[0]} to {taught[-1]}"


def draw(learner: remnant.Learner, path: Path) -> None:
    """A picture of the memory; patches, where that is what is stored, above completed images."""
    rows, counts = [], []
    for name in learner.classes_.tolist():
        kept = learner.remembered(name)
        rows.append((str(name), hide(kept)))
        counts.append(len(kept.stored))
        if kept.is_known is not None:
            rows.append(("completed", list(kept.completed)))
            counts.append(len(kept.stored))
    draw_gallery(rows, path, counts=counts)


def hide(kept: remnant.learner.Exemplars) -> list[np.ndarray]:
    """Stored images with grey in place of what is not stored."""
    if kept.is_known is None:
        return list(kept.stored)
    side = kept.stored.shape[1] // kept.is_known.shape[1]
    is_known = kept.is_known.repeat(side, axis=1).repeat(side, axis=2)[..., None]
    return list(np.where(is_known, kept.stored, np.uint8(128)))


if __name__ == "__main__":
    main()
