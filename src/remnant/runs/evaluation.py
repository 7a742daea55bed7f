"""What a run draws: its memory, and how the network redraws test images from some patches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from remnant import metrics
from remnant.data.stream import TaskStream
from remnant.images import ImageSet, Task
from remnant.methods import Draws, Method, replayed_memory
from remnant.phases import Reader
from remnant.reports import draw_gallery
from remnant.runs.run_folder import Reconstructions

_GALLERY_IMAGES = 12  # per class
_GALLERY_CLASSES = 30
_SHOWN_TASKS = 4  # one test image of each is redrawn after every task
_SCORED_IMAGES = 256  # over which reconstruction scores are averaged


def redraw_tests(
    method: Method, reader: Reader, stream: TaskStream, task: Task
) -> Reconstructions | None:
    """Fixed test images of the tasks seen, redrawn; None for a method that does not draw."""
    if not isinstance(method, Draws):
        return None
    tests = stream.seen_tests(task)
    task_of_label = np.array(stream.task_of_label)
    task_of_image = torch.from_numpy(task_of_label[tests.labels.numpy()])
    spread = np.linspace(0, len(stream) - 1, min(_SHOWN_TASKS, len(stream))).round().astype(int)
    shown = [int(index) for index in spread if index <= task.index]
    firsts = [int(torch.nonzero(task_of_image == index)[0]) for index in shown]
    images = tests.images.read(torch.tensor(firsts))
    drawn = method.redraw(images, reader)
    if drawn is None:
        return None
    pictures = {name: array.numpy() for name, array in ({"original": images} | drawn).items()}
    return Reconstructions(pictures, shown, _score(method, reader, tests))


def _score(method: Draws, reader: Reader, tests: ImageSet) -> dict[str, dict[str, float]]:
    """Mean PSNR and SSIM of each kind of reconstruction, over test images spread evenly."""
    count = min(_SCORED_IMAGES, len(tests))
    images = tests.images.read(torch.linspace(0, len(tests) - 1, count).long())
    drawn = method.redraw(images, reader) or {}
    original = images.numpy()
    scores = {}
    for name in ("both", "main"):
        if name in drawn:
            psnr = np.minimum(metrics.psnr(drawn[name].numpy(), original), metrics.NO_ERROR_PSNR)
            ssim = metrics.ssim(drawn[name].numpy(), original)
            scores[name] = {"psnr": float(psnr.mean()), "ssim": float(ssim.mean())}
    return scores


def draw_memory(method: Method, reader: Reader, path: Path) -> None:
    """The memory, class by class; exemplars known in part above what the network makes of them."""
    memory = method.memory
    stored = None if memory is None else memory.images(fill=(128, 128, 128))
    if memory is None or stored is None:
        return
    completed = replayed_memory(method, reader) if stored.is_known is not None else None
    rows, counts = [], []
    kept = list(zip(memory.labels, memory.class_names, memory.counts, strict=True))
    for label, name, count in kept[:_GALLERY_CLASSES]:
        shown = torch.nonzero(stored.labels == label).flatten()[:_GALLERY_IMAGES]
        rows.append((name, list(stored.images.read(shown).numpy())))
        counts.append(count)
        if completed is not None:
            rows.append(("completed", list(completed.images.read(shown).numpy())))
            counts.append(len(shown))
    draw_gallery(rows, path, counts=counts)
