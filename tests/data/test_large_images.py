"""Claims about feeding photographs to training, by the measurement in benchmarks/."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from benchmarks.large_images import build_method, load, look_of, measure_memory, write_photographs
from remnant.phases import Batch
from remnant.training.batches import Feeder


def first_batches(folder: Path, workers: int) -> list[Batch]:
    dataset = load(folder, workers)
    method = build_method("er", batch_size=2)
    phase = method.phase("train", dataset.train, method.config.first)
    feeder = Feeder(phase, look_of(dataset), 0, torch.device("cpu"))
    return [batch for (batch,) in feeder.batches(range(3), range(1), 1)]


def test_workers_do_not_change_what_training_sees(tmp_path: Path) -> None:
    write_photographs(tmp_path, 8, side=300, distinct=4)
    one, two = (first_batches(tmp_path, workers) for workers in (1, 2))
    for expected, found in zip(one, two, strict=True):
        assert expected.views.shape == (2, 3, 224, 224)
        assert torch.equal(expected.views, found.views)
        assert torch.equal(expected.ids, found.ids)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_memory_does_not_grow_with_the_number_of_images(tmp_path: Path) -> None:
    write_photographs(tmp_path, 4 * 100, side=500, distinct=8)
    few, more, most = measure_memory(tmp_path, 100, batch_size=16, workers=2)
    # Holding what was read would take 15 MB more at 200 images and 45 MB more at 400.
    assert max(more, most) - few < 12
