"""Claims about what is told before a run starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remnant.config import override
from remnant.phases import StepReport
from remnant.planning.run_estimate import estimate, images_per_task
from remnant.recipes import load_recipe
from remnant.runs import experiment
from tests.support.command_line import Command, tiny_config

WINDOWS = {"view": "window", "mask_ratio": 0.75, "unmasked_ratio": 0.4}


class CountImages:
    """Counts the images of each task, and leaves when there is no more to count."""

    def __init__(self, num_tasks: int) -> None:
        self.per_task = [0] * num_tasks

    def on_step(self, report: StepReport) -> None:
        self.per_task[report.task] += report.images
        if report.task + 1 == len(self.per_task) and report.step + 1 == report.num_steps:
            raise KeyboardInterrupt


def test_show_tells_parameters_memory_and_arithmetic(command: Command) -> None:
    shown = json.loads(command("show", "digits-er", "--json").out)
    assert {
        "config",
        "parameters",
        "memory_plan",
        "flops_per_image",
        "train_images",
        "train_flops",
    } <= set(shown)
    # 20 images of 3,072 bytes per class, two classes more after each task.
    assert [row["exemplars_per_class"] for row in shown["memory_plan"]] == [20] * 5
    assert [row["total_bytes"] for row in shown["memory_plan"]] == [
        20 * 3_072 * seen for seen in (2, 4, 6, 8, 10)
    ]
    # Every step, and the features of every image once, to choose exemplars.
    images, flops = shown["train_images"], shown["flops_per_image"]
    assert images * flops["train"] < shown["train_flops"]
    assert shown["train_flops"] < 1.01 * images * flops["train"] + 1_437 * flops["predict"]


def resnet8_forward(size: int, num_classes: int) -> tuple[int, int]:
    """FLOPs of one image by hand: all of them, and those of the first convolution.

    Three stages of 16, 32 and 64 channels with two 3x3 convolutions each; the second and third
    halve the side. Shortcuts pad and cost nothing.
    """
    first = 2 * size**2 * 16 * 3 * 9
    total = first + 2 * (2 * size**2 * 16 * 16 * 9)
    total += 2 * (size // 2) ** 2 * 9 * (32 * 16 + 32 * 32)
    total += 2 * (size // 4) ** 2 * 9 * (64 * 32 + 64 * 64)
    return total + 2 * 64 * num_classes, first


def test_arithmetic_equals_that_counted_by_hand() -> None:
    flops = estimate(load_recipe("digits-er"))["flops_per_image"]
    forward, first = resnet8_forward(32, num_classes=2)
    assert flops["predict"] == forward
    # Backward is twice forward, but nobody asks for the gradient of the image itself.
    assert flops["train"] == 3 * forward - first


def test_parameters_are_those_after_the_last_task() -> None:
    for recipe in ("digits-er", "digits-finetune"):
        plan = estimate(load_recipe(recipe))
        fewer = estimate(
            override(load_recipe(recipe), {"stream.num_classes": 2, "stream.num_tasks": 1})
        )
        assert plan["parameters"] - fewer["parameters"] == 8 * (64 + 1)


def test_a_network_that_grows_takes_more_with_every_task() -> None:
    config = override(
        load_recipe("digits-expandable"),
        {"method.balanced_tuning": None, "memory.selection": "random"},
    )
    alone = override(config, {"stream.num_classes": 2, "stream.num_tasks": 1})
    plan, first = estimate(config), estimate(alone)["flops_per_image"]
    assert plan["flops_per_image"] == first
    # Old extractors only predict. Classifiers, of a few hundred products, are left out by hand.
    by_hand = sum(
        images * (first["train"] + task * first["predict"])
        for task, images in enumerate(plan["train_images_per_task"])
    )
    assert plan["train_flops"] == pytest.approx(by_hand, rel=0.01)


@pytest.mark.parametrize(
    ("recipe", "tolerance"),
    [
        ("digits-er", 0.02),
        ("digits-icarl", 0.02),
        ("digits-bic", 0.05),  # sets aside a tenth, rounded
        ("digits-podnet", 0.02),
        ("digits-expandable", 0.03),
        ("digits-dytox", 0.03),
        ("digits-bimae", 0.03),
        ("digits-bimae-patches", 0.02),
        ("digits-ewc", 0.02),
        ("digits-derpp", 0.03),
        ("digits-gem", 0.03),
        ("digits-pass", 0.02),
        ("digits-tagfex", 0.05),  # pairs of views compare with all others of a batch
        ("digits-a-gem", 0.03),
        ("digits-gfr", 0.02),
        ("digits-mnemonics", 0.25),  # exemplars of a meta step are rehearsed with a smaller memory
        ("digits-mecil", 0.02),
        ("digits-cim", 0.2),  # a step of the mask generator costs the same for a small batch
    ],
)
def test_what_is_told_before_a_run_is_what_the_run_counts(
    recipe: str, tolerance: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "write_report", lambda *_: None)
    # Four tasks: the last is not rehearsed but follows from those before it.
    changes = {"stream.num_classes": 8, "stream.num_tasks": 4, "data.images_per_class": 20}
    config = override(tiny_config(recipe), changes | {"data.image_size": 16})
    if config.memory is not None:
        config = override(config, {"memory.budget": "10images/class"})
    told, counted = estimate(config), experiment.run(config, tmp_path / "run")
    assert told["train_flops"] == pytest.approx(counted.train_flops, rel=tolerance)
    # To the byte, but that exemplars of varying size may leave a part of the budget unused.
    most, kept = told["kept_bytes"].pop("memory", 0), dict(counted.kept_bytes)
    assert kept.pop("memory", 0) <= most
    assert told["kept_bytes"] == kept


@pytest.mark.parametrize("at_least", [0, 1000], ids=["always", "in the first task alone"])
def test_windows_are_foreseen(
    at_least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "write_report", lambda *_: None)
    changes = {f"method.{name}": value for name, value in WINDOWS.items()}
    config = override(
        tiny_config("digits-bimae", method__first__epochs=6),
        changes | {"method.window_exemplars": at_least, "data.image_size": 16},
    )
    told = estimate(config)["train_flops"]
    off = {"method.view": "full", "method.unmasked_ratio": 0.0, "method.window_exemplars": 0}
    whole = estimate(override(config, off))
    counted = experiment.run(config, tmp_path / "run").train_flops
    assert told == pytest.approx(counted, rel=0.03)
    assert 0.8 * whole["train_flops"] < told <= whole["train_flops"]  # 10 epochs of 0.55 for 6


def test_fewer_images_decoded_take_less_and_are_foreseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "write_report", lambda *_: None)
    config = tiny_config("digits-bimae-patches", method__first__epochs=6)
    few = override(config, {"method.decoded_ratio": 0.1, "data.image_size": 16})
    told = estimate(few)["train_flops"]
    counted = experiment.run(few, tmp_path / "run").train_flops
    assert told == pytest.approx(counted, rel=0.1)  # which images are decoded is drawn
    assert told < 0.8 * estimate(override(few, {"method.decoded_ratio": 1.0}))["train_flops"]


def test_a_method_that_chooses_its_codec_takes_no_less_than_its_base() -> None:
    """Its exemplars may be so small that a rehearsal keeps every image."""
    changes = {"memory.budget": "4images/class", "data.image_size": 16}
    told = [
        estimate(override(load_recipe(f"digits-{name}"), changes))["train_flops"]
        for name in ("ucir", "mrdc")
    ]
    assert told[0] <= told[1] <= 2 * told[0]


@pytest.mark.parametrize("steps_from", ["all", "new"])
def test_images_of_a_run_are_foreseen(tmp_path: Path, steps_from: str) -> None:
    config = tiny_config(method__first__epochs=2, method__first__steps_from=f'"{steps_from}"')
    counter = CountImages(num_tasks=2)
    with pytest.raises(KeyboardInterrupt):
        experiment.run(config, tmp_path / "run", watchers=(counter,))
    assert images_per_task(config) == counter.per_task
    assert estimate(config)["train_images"] == sum(counter.per_task)


def test_images_of_tasks_with_too_few_exemplars_for_windows_are_foreseen(tmp_path: Path) -> None:
    changes = {f"method.{name}": value for name, value in WINDOWS.items()}
    config = override(
        tiny_config("digits-bimae", method__first__epochs=2),
        changes | {"method.window_exemplars": 1000, "data.image_size": 16},
    )
    counter = CountImages(num_tasks=2)
    with pytest.raises(KeyboardInterrupt):
        experiment.run(config, tmp_path / "run", watchers=(counter,))
    assert images_per_task(config) == counter.per_task


def test_exemplars_that_vary_in_size_count_as_many_as_would_usually_fit() -> None:
    changes = {"memory.codec.name": "transform", "data.images_per_class": 100}
    config = tiny_config(method__first__epochs=1)
    few, all_of_them = (
        images_per_task(override(config, changes | {"memory.budget": f"{budget}images/class"}))
        for budget in (3, 1000)
    )
    assert few[0] == all_of_them[0] == 2 * 100
    assert 2 * 100 + 2 * 3 < few[1] < 2 * 100 + 2 * 3 * 20
    assert all_of_them[1] == 2 * 100 + 2 * 100


def test_images_of_a_method_without_memory_are_those_of_every_task() -> None:
    config = tiny_config("digits-finetune", method__first__epochs=3)
    assert images_per_task(config) == [2 * 6 * 3, 2 * 6 * 3]


def test_later_tasks_go_by_their_own_schedule() -> None:
    config = override(tiny_config("digits-finetune"), {"method.later.epochs": 5})
    assert images_per_task(config) == [2 * 6 * 1, 2 * 6 * 5]
