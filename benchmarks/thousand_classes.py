"""Does a run over a thousand classes end, in how much memory, and with a page of what size?

    python benchmarks/thousand_classes.py
    python benchmarks/thousand_classes.py --methods bimae --side 224 --images 80 --exemplars 80 \\
        --set memory.codec=coded-patches

Writes generated pictures in ImageNet's layout, runs the ImageNet-Full recipe of every method on
them in ten tasks, with small networks and one epoch, and prints a Markdown table. Each run is a
process of its own, whose largest resident memory is what `/usr/bin/time -v` tells; where there is a
/proc, it is also told for the end of every task, so that growth with the classes seen shows within
one run. Accuracies mean nothing. With --folder, what was stopped goes on when the same command is
given again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

METHODS = (
    "finetune-10", "er-10", "icarl", "simple-expandable", "expandable", "expandable-pruned",
    "dytox", "bimae", "joint",
)  # fmt: skip
HEADER = (
    "| recipe | tasks | minutes | largest resident, MB | until the end of each task | page, MB |"
)
HEADER += "\n|---|---:|---:|---:|---|---:|"
TUNED = ("simple-expandable", "expandable", "expandable-pruned", "dytox")
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
        "method.later": "null",
        "training.threads": 1,
        "training.checkpoint_every_steps": 50,
    }
    if method in ("finetune-10", "joint"):
        del settings["memory.budget"]
    if method in TUNED:
        settings["method.balanced_tuning.epochs"] = 1
    if method == "simple-expandable":
        settings["method.compression.epochs"] = 1
    patch = side // 8
    if method == "dytox":
        network = {**SMALL, "depth": 1, "patch_size": patch}
        return settings | {f"method.network.{key}": value for key, value in network.items()}
    if method == "bimae":
        network = {**SMALL, "fusion_mlp_width": 64, "patch_size": patch}
        settings |= {f"method.network.{key}": value for key, value in network.items()}
        return settings | {"memory.codec.patch_size": patch}
    return settings | {"method.backbone.name": "resnet8"}


def run(root: Path, method: str, folder: Path, settings: dict[str, object]) -> list[int]:
    """Start or continue a run; the largest resident bytes until the end of each task and of all."""
    command = [sys.executable, "-m", "remnant"]
    if (folder / "config.json").exists():
        command += ["resume", str(folder)]
    else:
        chosen = [f"--set={key}={value}" for key, value in settings.items()]
        recipe = f"imagenet-full-{method}"
        command += ["run", recipe, "--data-root", str(root), "--out", str(folder), *chosen]
    peaks: dict[int, int] = {}
    with (folder.parent / f"{method}.log").open("a") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            peaks[tasks_done(folder)] = peak_of(process.pid)
            time.sleep(0.2)
    _, status, usage = ended
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{method} ended with exit code {process.returncode}; see {log.name}")
    # Kilobytes on Linux, bytes on macOS.
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return [*(peaks[task] for task in sorted(peaks) if peaks[task]), peak]


def tasks_done(folder: Path) -> int:
    predictions = folder / "predictions"
    return len(list(predictions.glob("[!.]*"))) if predictions.exists() else 0


def peak_of(process: int) -> int:
    """The largest resident bytes of a process so far; 0 if the system does not tell."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    lines = (line.split() for line in status.splitlines() if line.startswith("VmHWM"))
    return sum(1024 * int(kilobytes) for _, kilobytes, _ in lines)


def row(folder: Path, method: str, peaks: list[int]) -> str:
    result = json.loads((folder / "result.json").read_text())
    page = (folder / "report.html").stat().st_size / 1e6
    minutes = sum(result["seconds_per_task"]) / 60
    until = ", ".join(f"{peak / 1e6:,.0f}" for peak in peaks[:-1])
    cells = (method, len(result["task_sizes"]), f"{minutes:.1f}", f"{peaks[-1] / 1e6:,.0f}")
    return "| " + " | ".join(map(str, (*cells, until, f"{page:.1f}"))) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--side", type=int, default=32, help="of an image, in pixels")
    parser.add_argument("--images", type=int, default=4, help="per class, to train on")
    parser.add_argument("--exemplars", type=int, default=2, help="per class")
    parser.add_argument("--set", nargs="*", default=[], help="other settings, as key=value")
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
            chosen |= dict(one.split("=", 1) for one in arguments.set)
            peaks = run(root, method, folder, chosen)
            print(row(folder, method, peaks), flush=True)


if __name__ == "__main__":
    main()
