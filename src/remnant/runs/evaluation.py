"""What a run draws: its memory, and how the network redraws test images from some patches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from remnant import metrics
from remnant.data.stream import TaskStream
from remnant.images import ImageSet, Task
from remnant.methods import Draws, Method, replayed_memory
from remnant.phases import Reader
from remnant.reports import draw_gallery
from remnant.runs.drawings import Drawings, drawn_tasks
from remnant.runs.run_folder import Reconstructions

_GALLERY_IMAGES = 12  # per class
_GALLERY_CLASSES = 30
_SCORED_IMAGES = 256  # over which reconstruction scores are averaged
_SCORED_PER_TASK = 32  # of the figure: those of each task
_REDRAWN = ("both", "main")  # whole images; the detail branch draws a correction


def redraw_tests(
    method: Method, reader: Reader, stream: TaskStream, task: Task
) -> Reconstructions | None:
    """Fixed test images of the tasks seen, redrawn; None for a method that does not draw."""
    if not isinstance(method, Draws):
        return None
    tests = stream.seen_tests(task)
    task_of_label = np.array(stream.task_of_label)
    task_of_image = torch.from_numpy(task_of_label[tests.labels.numpy()])
    shown = [index for index in drawn_tasks(len(stream)) if index <= task.index]
    firsts = [int(torch.nonzero(task_of_image == index)[0]) for index in shown]
    images = tests.images.read(torch.tensor(firsts))
    drawn = method.redraw(images, reader)
    if drawn is None:
        return None
    pictures = {name: array.numpy() for name, array in ({"original": images} | drawn).items()}
    return Reconstructions(pictures, shown, _score(method, reader, tests))


def draw_tests(method: Method, reader: Reader, stream: TaskStream, task: Task) -> Drawings | None:
    """Test images of a few tasks, learned or not, redrawn after one of these tasks; or None.

    The same images with the same patches visible every time.
    """
    shown = drawn_tasks(len(stream))
    if not isinstance(method, Draws) or task.index not in shown:
        return None
    some = [_spread(stream.tests_of(index), _SCORED_PER_TASK) for index in shown]
    count = min(map(len, some))
    images = torch.cat([one[:count] for one in some])
    drawn = method.redraw(images, reader)
    if drawn is None:
        return None
    kinds = [name for name in ("visible", *_REDRAWN, "detail") if name in drawn]
    pictures = {"original": images} | {name: drawn[name] for name in kinds}
    return Drawings(
        task.index,
        {name: array[::count].numpy() for name, array in pictures.items()},
        shown,
        {
            name: _psnr(drawn[name], images).reshape(-1, count).mean(axis=1).tolist()
            for name in _REDRAWN
            if name in drawn
        },
        count,
    )


def _score(method: Draws, reader: Reader, tests: ImageSet) -> dict[str, dict[str, float]]:
    """Mean PSNR and SSIM of each kind of reconstruction, over test images spread evenly."""
    images = _spread(tests, _SCORED_IMAGES)
    drawn = method.redraw(images, reader) or {}
    scores = {}
    for name in _REDRAWN:
        if name in drawn:
            ssim = metrics.ssim(drawn[name].numpy(), images.numpy())
            psnr = _psnr(drawn[name], images)
            scores[name] = {"psnr": float(psnr.mean()), "ssim": float(ssim.mean())}
    return scores


def _spread(tests: ImageSet, count: int) -> Tensor:
    """So many images of a set, or all, from its first to its last."""
    count = min(count, len(tests))
    return tests.images.read(torch.linspace(0, len(tests) - 1, count).long())


def _psnr(drawn: Tensor, images: Tensor) -> np.ndarray:
    return np.minimum(metrics.psnr(drawn.numpy(), images.numpy()), metrics.NO_ERROR_PSNR)


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
