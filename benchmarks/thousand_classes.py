"""Does a run over a thousand classes end, in how much memory, and with a page of what size?

    python benchmarks/thousand_classes.py
    python benchmarks/thousand_classes.py --methods bimae --side 224 --images 80 --exemplars 80

Writes generated pictures in ImageNet's layout, runs the ImageNet-Full recipe of every method on
them in ten tasks, with small networks and one epoch, and prints a Markdown table. Each run is a
process of its own, whose largest resident memory is what `/usr/bin/time -v` tells. Accuracies mean
nothing. With --folder, what was stopped goes on when the same command is given again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

METHODS = (
    "finetune-10", "er-10", "icarl", "simple-expandable", "expandable", "expandable-pruned",
    "dytox", "bimae", "joint",
)  # fmt: skip
HEADER = "| recipe | tasks | largest resident, MB | page, MB |\n|---|---:|---:|---:|"
SMALL = {"width": 32, "mlp_width": 64, "head_width": 16}


def wnid(label: int) -> str:
    """Made up, but that the first and the hundredth are those of ILSVRC 2012, as a run expects."""
    return f"n{1440764 + 1000 * label if label < 99 else 1855672 + label - 99:08d}"


def write_pictures(root: Path, num_classes: int, images: int, side: int) -> None:
    """One picture per class; its further images are other names of the same file."""
    chance = np.random.default_rng(0)
    for split, count in (("train", images), ("val", 2)):
        for label in range(num_classes):
            folder = root / "imagenet" / split / wnid(label)
            folder.mkdir(parents=True)
            coarse = Image.fromarray(chance.integers(0, 256, (7, 9, 3), dtype=np.uint8))
            first = folder / "0.JPEG"
            size = (side * 5 // 4, side)
            coarse.resize(size, Image.Resampling.BICUBIC).save(first, "JPEG", quality=80)
            for index in range(1, count):
                os.link(first, folder / f"{index}.JPEG")


def settings_of(method: str, side: int, exemplars: int, classes: int) -> dict[str, object]:
    """What makes a recipe small; its stream and its way of learning stay as they are."""
    settings: dict[str, object] = {
        "data.image_size": side,
        "memory.budget": f"{exemplars * classes}images",
        "method.first.epochs": 1,
        "method.first.batch_size": 64,
        "method.first.steps_from": "new",
        "training.threads": 1,
        "training.checkpoint_every_steps": 50,
    }
    if method in ("finetune-10", "joint"):
        del settings["memory.budget"]
    patch = side // 8
    if method == "dytox":
        network = {**SMALL, "depth": 1, "patch_size": patch}
        return settings | {f"method.network.{key}": value for key, value in network.items()}
    if method == "bimae":
        network = {**SMALL, "fusion_mlp_width": 64, "patch_size": patch}
        settings |= {f"method.network.{key}": value for key, value in network.items()}
        return settings | {"memory.codec.patch_size": patch}
    return settings | {"method.backbone.name": "resnet8"}


def run(root: Path, method: str, folder: Path, settings: dict[str, object]) -> int:
    """Start or continue a run; the largest resident bytes of its process."""
    command = [sys.executable, "-m", "remnant"]
    if (folder / "config.json").exists():
        command += ["resume", str(folder)]
    else:
        chosen = [f"--set={key}={value}" for key, value in settings.items()]
        recipe = f"imagenet-full-{method}"
        command += ["run", recipe, "--data-root", str(root), "--out", str(folder), *chosen]
    with (folder.parent / f"{method}.log").open("a") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{method} ended with exit code {process.returncode}; see {log.name}")
    # Kilobytes on Linux, bytes on macOS.
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def row(folder: Path, method: str, peak: int) -> str:
    tasks = len(json.loads((folder / "result.json").read_text())["task_sizes"])
    page = (folder / "report.html").stat().st_size
    return f"| {method} | {tasks} | {peak / 1e6:,.0f} | {page / 1e6:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--side", type=int, default=32, help="of an image, in pixels")
    parser.add_argument("--images", type=int, default=4, help="per class, to train on")
    parser.add_argument("--exemplars", type=int, default=2, help="per class")
    parser.add_argument("--folder", type=Path, help="keep pictures and runs here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing:
        root = arguments.folder or Path(passing)
        if not (root / "imagenet").exists():
            write_pictures(root, 1000, arguments.images, arguments.side)
        print(HEADER, flush=True)
        for method in arguments.methods:
            folder = root / method
            if (folder / "report.html").exists():
                continue
            chosen = settings_of(method, arguments.side, arguments.exemplars, 1000)
            peak = run(root, method, folder, chosen)
            print(row(folder, method, peak), flush=True)


if __name__ == "__main__":
    main()
