from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import remnant.runs.experiment as experiment_module
from remnant.memory import Candidate, Memory, MemoryConfig, herding
from remnant.memory.codecs.jpeg import JpegConfig
from remnant.methods.mrdc import MRDCConfig, choose, log_volume
from remnant.runs.experiment import run
from tests.support.small_bimae import SHAPE, make_task, make_trainer, noise_images
from tests.support.small_residual import SCHEDULE, learn_task, make_residual
from tests.support.tiny_methods import run_config
from tests.support.worlds import seeded

JPEG = {"codec": "jpeg", "base": "er"}
WARM = {**SCHEDULE, "epochs": 2, "optimizer": {"name": "sgd", "lr": 0.05, "warmup_epochs": 1}}
BASES: dict[str, dict[str, Any]] = {
    "ucir": {"balanced_tuning": SCHEDULE},
    "icarl": {},
    "wa": {},
    "bic": {"correction": SCHEDULE},
    "podnet": {"balanced_tuning": SCHEDULE},
    "expandable": {"balanced_tuning": SCHEDULE},
}


def slow_determinant(rows: list[list[float]]) -> float:
    """Leibniz: a signed product for each permutation."""
    total = 0.0
    for places in itertools.permutations(range(len(rows))):
        swaps = sum(a > b for a, b in itertools.combinations(places, 2))
        total += (-1) ** swaps * math.prod(rows[i][place] for i, place in enumerate(places))
    return total


def slow_log_volume(features: Tensor, jitter: float) -> float:
    """[mrdc] sqrt(det(D D^T)) with D the unit features, one row per image."""
    units = [[value / math.dist(row, [0] * len(row)) for value in row] for row in features.tolist()]
    gram = [
        [sum(a * b for a, b in zip(one, other, strict=True)) for other in units] for one in units
    ]
    for index in range(len(gram)):
        gram[index][index] += jitter
    return math.log(math.sqrt(slow_determinant(gram)))


@pytest.mark.parametrize("shape", [(1, 3), (4, 6), (5, 2)])
def test_the_volume_is_the_root_of_the_determinant(shape: tuple[int, int]) -> None:
    features = torch.randn(shape, generator=seeded(1))
    expected = slow_log_volume(features, 0.01)
    assert log_volume(features, 0.01) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_what_is_alike_spans_no_volume_and_lengths_do_not_matter() -> None:
    apart = torch.eye(3)
    alike = apart + torch.ones(3, 3)
    assert log_volume(alike, 1e-6) < log_volume(apart, 1e-6) - 1
    assert log_volume(7 * alike, 1e-6) == pytest.approx(log_volume(alike, 1e-6))


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([0.1, 0.6, 0.9], 1),  # the lowest that is close enough
        ([0.1, 0.2, 0.4], 2),  # none is: the nearest
        ([3.0, 1.9, 1.8], 2),
        ([0.51, 1.0], 0),
    ],
)
def test_the_lowest_quality_of_about_the_same_volume_is_chosen(
    ratios: list[float], expected: int
) -> None:
    assert choose(ratios, 0.5) == expected


def test_a_huge_ratio_is_told_as_a_number_and_not_chosen() -> None:
    method = make_residual("mrdc", **JPEG, qualities=(20, 80))
    method.curve[:] = torch.tensor([[9.0, 90.0, 1000.0, 0.0], [5.0, 300.0, -40.0, -40.1]])
    (decision,) = method.decisions()
    assert decision["value"] == 80
    assert all(math.isfinite(row["ratio"]) for row in decision["curve"])


def test_the_curve_is_that_of_every_quality_tried_by_hand() -> None:
    """Each class and quality: encode all, count, herd what fits, compare with the originals."""
    trainer, task = make_trainer(), make_task(0)
    method = make_residual("mrdc", **JPEG, qualities=(20, 80))
    learn_task(method, 0, trainer)
    share = 3 * 16 * 16 * 3
    for place, quality in enumerate((20, 80)):
        config = MemoryConfig(budget="99images/class", codec=JpegConfig(quality=quality))
        found = []
        for label in (0, 1):
            images = task.train.of_class(label)
            pixels = images.images.read(torch.arange(len(images)))
            stored = Memory(config, SHAPE, 0)
            stored.add_class(0, "all", map(Candidate, pixels.numpy()))
            mean_bytes = stored.nbytes / len(images)
            coded = stored.images()
            assert coded is not None
            features = trainer.reader.apply(method.features, coded)
            ranks = herding(features, min(len(images), int(share / mean_bytes)))
            originals = trainer.reader.apply(method.features, images)[ranks]
            volumes = [slow_log_volume(one, 1e-3) for one in (features[ranks], originals)]
            found.append([len(ranks), mean_bytes, *volumes])
        means = torch.tensor(found).mean(dim=0)
        assert torch.allclose(method.curve[place], means, rtol=1e-3, atol=1e-3)


def test_the_memory_stores_the_chosen_quality_and_a_file_remembers_it() -> None:
    method = make_residual("mrdc", **JPEG, qualities=(30, 60), threshold=1e-9)
    learn_task(method, 0, make_trainer())
    ratios = method.ratios()
    chosen = (30, 60)[min((0, 1), key=lambda index: abs(ratios[index] - 1))]
    assert method.memory.config.codec.quality == chosen
    again = Memory.from_arrays(*method.memory.state_arrays())
    assert again.config.codec == method.memory.config.codec
    assert method.decisions()[0]["value"] == chosen


def test_nothing_is_decided_before_the_first_task_is_trained() -> None:
    method = make_residual("mrdc", **JPEG)
    assert method.decisions() == []
    assert "quality_curve" in {one.name for one in method.kept()}


def test_a_warm_up_of_the_base_decides_nothing() -> None:
    trainer, task = make_trainer(), make_task(0)
    method = make_residual("mrdc", codec="jpeg", base="expandable", first=WARM)
    method.begin_task(task, trainer.reader)
    decided_before = {}
    for phase in method.phases(task, trainer.reader):
        decided_before[phase.name] = bool(method.decisions())
        trainer.fit(method, task, phase)
    assert decided_before == {"warm-up": False, "train": False}
    assert method.decisions()


@pytest.mark.parametrize("base", BASES)
def test_it_goes_around_other_methods(base: str) -> None:
    trainer = make_trainer()
    options = {"qualities": (30, 60), "base": {"name": base, **BASES[base]}}
    method = make_residual("mrdc", codec="jpeg", **options)
    learn_task(method, 0, trainer)
    chosen, curve = method.memory.config.codec.quality, method.curve.clone()
    assert chosen in (30, 60)
    learn_task(method, 1, trainer)
    assert method.base.config.name == base
    assert min(method.memory.counts) >= 3
    assert len(method.memory.counts) == 4
    assert method.memory.config.codec.quality == chosen
    assert torch.equal(method.curve, curve)  # later tasks choose nothing


def test_every_base_but_the_one_used_above_is_tried() -> None:
    assert {*BASES, "er"} == {*MRDCConfig.bases}


def test_a_memory_that_holds_something_keeps_its_codec() -> None:
    memory = Memory(MemoryConfig(budget="3images/class"), SHAPE, 0)
    memory.add_class(0, "noise", map(Candidate, noise_images(2).numpy()))
    with pytest.raises(AssertionError, match="keep the form"):
        memory.use_codec(JpegConfig())


def test_a_run_folder_tells_the_choice_and_its_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("draw_memory", "write_report"):  # tests/reports has the page
        monkeypatch.setattr(experiment_module, name, lambda *_: None)
    run(run_config("mrdc"), tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    (decision,) = result["decisions"]
    assert [row["quality"] for row in decision["curve"]] == [10, 25, 50, 75, 90]
    counts = [row["exemplars"] for row in decision["curve"]]
    assert counts == sorted(counts, reverse=True)  # a lower quality leaves room for more
    assert decision["value"] in (10, 25, 50, 75, 90)
