"""Nine classes of CIFAR-100 as folders of images, taught to one store in three updates of three.

    remnant data get cifar100
    python examples/cifar_folders.py --out cifar-folders

Every update sees the folders of its three classes alone. After each, all classes so far are tested
with images that nobody was taught with. In the end the store is set against the data.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from PIL import Image

from remnant.data import DataConfig, load_dataset
from remnant.images import ImageSet
from remnant.learner import learn_into_store
from remnant.learner.learner_state import LearnerState
from remnant.reports.units import bytes_text

UPDATES = (
    ("apple", "bicycle", "leopard"),
    ("castle", "orange", "shark"),
    ("bottle", "motorcycle", "rose"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", help="the folder that holds the data sets")
    parser.add_argument("--budget", default="60KiB/class")
    parser.add_argument("--images", type=int, default=500, help="of each class, at most")
    parser.add_argument("--epochs", type=int, help="of each update; by default they are chosen")
    parser.add_argument("--out", type=Path, default=Path("cifar-folders"), help="a folder")
    arguments = parser.parse_args()

    data_bytes = write_folders(arguments.out, arguments.data_root, arguments.images)
    store, state = arguments.out / "nine.remnant", None
    for number, names in enumerate(UPDATES, start=1):
        state = learn_into_store(
            store,
            arguments.out / f"update-{number}",
            test=arguments.out / f"test-{number}",
            budget=arguments.budget,
            epochs=arguments.epochs,
        )
        print(
            f"update {number}: {', '.join(names)}; {len(state.classes)} classes, "
            f"{state.history[-1]['accuracy']:.1f} % right, {size(store)} on disk"
        )
    assert state is not None
    tell_sizes(state, store, data_bytes)


def write_folders(out: Path, root: str | None, num_images: int) -> int:
    """Folders of PNG files for every update and its test; the bytes of all that is taught."""
    config = DataConfig(dataset="cifar100", root=root)
    data, written = load_dataset(config), 0
    for number, names in enumerate(UPDATES, start=1):
        for name in names:
            label = data.class_names.index(name)
            taught = write_class(data.train, label, out / f"update-{number}" / name, num_images)
            written += taught
        for name in (one for some in UPDATES[:number] for one in some):
            write_class(data.test, data.class_names.index(name), out / f"test-{number}" / name)
    return written


def write_class(images: ImageSet, label: int, folder: Path, limit: int | None = None) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    chosen, written = images.of_class(label), 0
    for index in range(len(chosen) if limit is None else min(limit, len(chosen))):
        path = folder / f"{index:03d}.png"
        Image.fromarray(chosen.images.read(torch.tensor([index]))[0].numpy()).save(path)
        written += path.stat().st_size
    return written


def tell_sizes(state: LearnerState, store: Path, data_bytes: int) -> None:
    kept = state.method.memory
    assert kept is not None, "this method keeps exemplars"
    print(f"taught with   {bytes_text(data_bytes)} of PNG files")
    print(f"kept of them  {bytes_text(kept.nbytes)}, {sum(kept.counts):,} exemplars")
    print(f"whole store   {size(store)}, with the network")


def size(path: Path) -> str:
    return bytes_text(path.stat().st_size)


if __name__ == "__main__":
    main()
