from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from remnant.data.stream import TaskStream
from remnant.images import ImageSet
from remnant.methods.bimae import BiMAE
from remnant.runs.drawings import Drawings, drawn_tasks, read_drawings, shrink, write_drawings
from remnant.runs.evaluation import draw_tests
from tests.support.small_bimae import make_method, make_trainer, noise_set

NUM_TASKS = 3


def make_stream(per_class: int = 4) -> TaskStream:
    """Three tasks of two classes of noise."""

    def images(seed: int) -> ImageSet:
        return noise_set([label for label in range(6) for _ in range(per_class)], seed)

    names = [f"noise {label}" for label in range(6)]
    return TaskStream(images(0), images(1), names, [[0, 1], [2, 3], [4, 5]])


def drawn_after(task: int, method: BiMAE | None = None) -> Drawings | None:
    stream = make_stream()
    method = make_method(num_classes=2) if method is None else method
    return draw_tests(method, make_trainer().reader, stream, stream[task])


@pytest.mark.parametrize(
    ("num_tasks", "expected"),
    [(10, [0, 3, 6, 9]), (50, [0, 16, 33, 49]), (5, [0, 1, 3, 4]), (2, [0, 1]), (1, [0])],
)
def test_four_tasks_spread_over_the_stream_are_drawn(num_tasks: int, expected: list[int]) -> None:
    assert drawn_tasks(num_tasks) == expected


def test_images_of_tasks_to_come_are_redrawn_as_well() -> None:
    drawn = drawn_after(0)
    assert drawn is not None
    assert (drawn.task, drawn.tasks) == (0, [0, 1, 2])
    assert {name: array.shape for name, array in drawn.pictures.items()} == dict.fromkeys(
        ("original", "visible", "both", "main", "detail"), (NUM_TASKS, 16, 16, 3)
    )
    firsts = [make_stream().tests_of(index).images.read(torch.tensor([0])) for index in range(3)]
    np.testing.assert_array_equal(drawn.pictures["original"], torch.cat(firsts).numpy())
    assert {name: len(values) for name, values in drawn.psnr.items()} == {"both": 3, "main": 3}
    assert drawn.num_scored == 8


def test_after_every_task_the_same_patches_of_the_same_images_are_visible() -> None:
    torch.manual_seed(1)
    first = drawn_after(0)
    torch.manual_seed(2)
    last = drawn_after(2, make_method(num_classes=6))
    assert first is not None
    assert last is not None
    np.testing.assert_array_equal(first.pictures["visible"], last.pictures["visible"])


def test_a_task_drawn_again_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("first", "again"):
        torch.manual_seed(len(name))
        drawn = drawn_after(1)
        assert drawn is not None
        write_drawings(tmp_path / name, drawn)
    first, again = (
        tmp_path / name / "drawings" / "task-001.safetensors" for name in ("first", "again")
    )
    assert first.read_bytes() == again.read_bytes()
    assert first.stat().st_size < 100_000


def test_psnr_is_the_mean_over_the_test_images_of_a_task() -> None:
    method, stream, reader = make_method(num_classes=2), make_stream(), make_trainer().reader
    drawn = draw_tests(method, reader, stream, stream[0])
    assert drawn is not None
    images = torch.cat([stream.tests_of(index).images.read(torch.arange(8)) for index in range(3)])
    both = method.redraw(images, reader)["both"]
    slow = []
    for image, redrawn in zip(images[8:16].double(), both[8:16].double(), strict=True):
        error = sum(float(difference) ** 2 for difference in (image - redrawn).flatten())
        slow.append(10 * np.log10(255**2 / (error / image.numel())))
    assert drawn.psnr["both"][1] == pytest.approx(sum(slow) / 8, abs=1e-6)


def test_methods_that_do_not_draw_and_tasks_between_give_nothing() -> None:
    assert (
        drawn_after(0, make_method(num_classes=2, generate_replay=False, reconstruction="off"))
        is None
    )
    stream = TaskStream(
        noise_set(list(range(6))),
        noise_set(list(range(6))),
        list("abcdef"),
        [[i] for i in range(6)],
    )
    reader = make_trainer().reader
    indices = [
        index
        for index in range(6)
        if draw_tests(make_method(num_classes=1), reader, stream, stream[index])
    ]
    assert indices == [0, 2, 3, 5]


def test_large_pictures_are_kept_small_and_come_back_as_written(tmp_path: Path) -> None:
    images = np.arange(224 * 224 * 3, dtype=np.uint32).reshape(1, 224, 224, 3).astype(np.uint8)
    small = shrink(images)
    assert small.shape == (1, 56, 56, 3)
    assert abs(int(small[0, 3, 5, 1]) - images[0, 12:16, 20:24, 1].mean()) <= 0.5
    write_drawings(tmp_path, Drawings(4, {"original": images}, [4], {"both": [12.5]}, 32))
    (found,) = read_drawings(tmp_path)
    np.testing.assert_array_equal(found.pictures["original"], small)
    assert (found.task, found.tasks, found.psnr, found.num_scored) == (4, [4], {"both": [12.5]}, 32)
