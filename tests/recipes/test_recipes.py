"""Claims about every recipe, without running it; and one run on a generated Tiny-ImageNet."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import remnant
from remnant.config import override, settle
from remnant.data import DATASETS, describe_dataset
from remnant.data.stream import resolve_tasks
from remnant.methods import METHODS
from remnant.phases import Schedule
from remnant.planning.run_estimate import estimate
from remnant.recipes import RECIPES, describe_recipe, load_recipe
from remnant.runs.experiment import validate_run
from tests.support.command_line import TINY, write_pictures

ALL = list(RECIPES.items())
MINI = [name for name in RECIPES if "-mini-" in name]
# One recipe of every preset at every scale; the others differ in the number of tasks alone.
# A folder's own files say what is in it.
KINDS = list(
    {
        (one.preset.name, one.protocol.scale): name
        for name, one in ALL[::-1]
        if one.protocol.scale != "folder"
    }.values()
)
# 80 real images per class: the paper's upper bound, in four times the bytes of the others.
MINI_BUDGETS = dict.fromkeys(
    ("cifar100-mini-bimae-real-count", "tiny-imagenet-mini-bimae-real-count"), "240KiB/class"
)
RUNS = Path(__file__).parents[2] / "docs" / "runs"


def test_names_say_dataset_scale_method_variant_and_tasks() -> None:
    for name, recipe in ALL:
        config = recipe()
        pattern = (
            f"{config.data.dataset}(-mini|-lite)?-({config.method.name}|best)"
            r"(-[a-z]+\w*(-[a-z]+\w*)*)?(-(?P<tasks>\d+))?"
        )
        match = re.fullmatch(pattern, name)
        assert match or name == "demo", f"{name}: {pattern}"
        assert match is None or match["tasks"] in (None, str(config.stream.num_tasks)), name
        assert config.recipe == name


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_its_small_recipes(method: str) -> None:
    protocols = ("digits", "folder", "cifar100-mini", "tiny-imagenet-mini")
    assert {f"{protocol}-{method}" for protocol in protocols} <= set(RECIPES)


@pytest.mark.parametrize("method", METHODS)
def test_a_folder_of_images_can_be_given_to_every_method(method: str, tmp_path: Path) -> None:
    write_pictures(tmp_path, {"ant": 12, "bee": 12, "cat": 12, "dog": 12, "elk": 12})
    config = override(load_recipe(f"folder-{method}"), {"data.path": str(tmp_path)})
    validate_run(config)
    sizes = [len(task) for task in resolve_tasks(config.stream, describe_dataset(config.data))]
    assert sizes == ([5] if method == "joint" else [3, 2])
    first = load_recipe(f"cifar100-mini-{method}").method.first
    assert config.method.first.batch_size == first.batch_size / 2
    assert config.method.first.epochs == first.epochs


def test_every_recipe_is_described_in_one_line_of_its_own() -> None:
    lines = {name: describe_recipe(name) for name in RECIPES}
    assert all(re.fullmatch(r"[^\n]+\.", line) for line in lines.values())
    assert lines["cifar100-er-10"] == (
        "CIFAR-100, 10 tasks: ResNet-32, 200 epochs, then 70, as in PyCIL."
    )


@pytest.mark.parametrize("name", MINI)
def test_the_mini_protocol_holds(name: str) -> None:
    config = load_recipe(name)
    is_joint = config.method.name == "joint"
    assert [len(task) for task in resolve_tasks(config.stream, describe_dataset(config.data))] == (
        [10] if is_joint else [2] * 5
    )
    assert config.stream.order == "default"
    assert (config.data.image_size, config.data.images_per_class) == (32, None)
    assert config.data.holdout_ratio == 0
    if METHODS[config.method.name].uses_memory:
        assert config.memory is not None
        assert config.memory.budget == MINI_BUDGETS.get(name, "60KiB/class")
        assert config.memory.count_overhead
    for schedule in (config.method.first, config.method.later):
        if isinstance(schedule, Schedule) and METHODS[config.method.name].trains:
            assert (schedule.epochs, schedule.batch_size, schedule.steps_from) == (30, 64, "new")


LITE = [
    name
    for name, recipe in RECIPES.items()
    if "-lite-" in name and METHODS[recipe.preset.setups["mini"].method.name].trains
]


@pytest.mark.parametrize("name", LITE)
def test_the_lite_protocol_holds(name: str) -> None:
    recipe, config = RECIPES[name], load_recipe(name)
    assert sum(map(len, resolve_tasks(config.stream, describe_dataset(config.data)))) == 100
    assert config.stream.order == "default"
    assert (config.data.image_size, config.data.images_per_class) == (None, None)
    mini_name = re.sub(r"-\d+$", "", name).replace("-lite-", "-mini-")
    budget = MINI_BUDGETS.get(mini_name, "20images/class")
    assert config.memory is None or config.memory.budget == budget
    mini = recipe.preset.setups["mini"].method
    for key, schedule in config.method:
        if isinstance(schedule, Schedule):
            assert schedule.epochs == math.ceil(getattr(mini, key).epochs / 5)
            assert (
                schedule.optimizer.warmup_epochs == getattr(mini, key).optimizer.warmup_epochs / 5
            )
    first = config.method.first
    assert (first.epochs, first.batch_size, first.steps_from) == (6, 64, "new")


@pytest.mark.parametrize("name", KINDS)
def test_every_recipe_can_be_shown_without_data(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REMNANT_DATA", str(tmp_path))
    # Counting the arithmetic at 224 px takes seconds and is not what is claimed here.
    monkeypatch.setattr("remnant.planning.run_estimate.train_flops", lambda *_: 3)
    monkeypatch.setattr("remnant.planning.run_estimate.predict_flops", lambda *_: 1)
    monkeypatch.setattr("remnant.planning.run_estimate.run_flops", lambda *_: 7)
    config = load_recipe(name)
    plan = estimate(config)
    known = DATASETS[config.data.dataset].facts
    assert sum(plan["task_sizes"]) in (10, known.num_classes)
    assert plan["train_flops"] == 7
    assert plan["train_images"] > 0
    assert len(plan["memory_plan"]) == (len(plan["task_sizes"]) if config.memory else 0)


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("cifar100-expandable-10", 112.20),
        ("cifar100-expandable-20", 224.40),
        ("cifar100-expandable-50", 561.00),
        ("imagenet-subset-expandable-10", 112.27),  # printed for CIFAR-100 too
    ],
)
def test_growing_networks_have_their_published_sizes(
    name: str, millions: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remnant.planning.run_estimate.train_flops", lambda *_: 3)
    monkeypatch.setattr("remnant.planning.run_estimate.predict_flops", lambda *_: 1)
    monkeypatch.setattr("remnant.planning.run_estimate.run_flops", lambda *_: 7)
    assert estimate(load_recipe(name))["parameters"] / 1e6 == pytest.approx(millions, abs=0.01)


@pytest.mark.parametrize("name", [run.name for run in RUNS.iterdir() if run.name in RECIPES])
def test_a_recipe_is_still_what_was_measured(name: str) -> None:
    """What was added to the settings since then is left at its default."""
    ran = json.loads((RUNS / name / "config.json").read_bytes())
    now = settle(load_recipe(name)).model_dump(mode="json")
    for part in ("data", "stream", "method"):
        assert contains(now[part], ran[part])
    assert (now["memory"] or {}).get("budget") == (ran["memory"] or {}).get("budget")


def contains(values: Any, part: Any) -> bool:
    if not isinstance(part, dict):
        return values == part
    return all(contains(values[key], inner) for key, inner in part.items())


def write_tiny_imagenet(root: Path, num_classes: int = 200, num_train: int = 2) -> None:
    """The release's layout with two training images and one test image of every class."""
    folder = root / "tiny-imagenet-200"
    (folder / "val" / "images").mkdir(parents=True)
    wnids = [f"n{index:08d}" for index in range(num_classes)]
    rows = []
    for index, wnid in enumerate(wnids):
        picture = Image.new("RGB", (64, 64), (index, 20 * (index % 10), 0))
        inner = folder / "train" / wnid / "images"
        inner.mkdir(parents=True)
        for number in range(num_train):
            picture.save(inner / f"{wnid}_{number}.JPEG")
        picture.save(folder / "val" / "images" / f"val_{index}.JPEG")
        rows.append(f"val_{index}.JPEG\t{wnid}\t0\t0\t62\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(rows))
    (folder / "wnids.txt").write_text("\n".join(wnids))


def test_a_tiny_imagenet_recipe_runs_on_a_miniature(tmp_path: Path) -> None:
    write_tiny_imagenet(tmp_path)
    settings = {key: value for key, value in TINY.items() if key.startswith(("method", "training"))}
    settings |= {"data.root": tmp_path, "method.backbone.name": "resnet8"}
    result = remnant.run(
        "tiny-imagenet-mini-er", tmp_path / "run", settings=settings, progress=False
    )
    assert result["task_sizes"] == [2] * 5
    assert result["memory"]["exemplars_per_class"] == [2] * 10
    assert result["class_names"] == [f"n{index:08d}" for index in range(10)]
