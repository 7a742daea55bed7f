"""Claims about configs: they survive JSON, can be changed by name, and explain themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remnant.cli.console import parse_settings
from remnant.config import RunConfig, load_config, override
from remnant.errors import InputError, nearest
from remnant.recipes import RECIPES, load_recipe
from remnant.settings import setting_paths


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_survives_json(name: str) -> None:
    config = load_recipe(name)
    text = json.dumps(config.model_dump(mode="json"), allow_nan=False)
    assert RunConfig.parse(json.loads(text)) == config


def test_a_written_config_is_read_back_as_a_recipe(tmp_path: Path) -> None:
    config = override(load_recipe("digits-er"), {"seed": 7, "memory.codec.name": "patches"})
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.model_dump(mode="json")))
    assert load_recipe(str(path)) == config


def test_nothing_to_override_leaves_a_config_as_it_is() -> None:
    config = load_recipe("cifar100-er-10")
    assert override(config, {}) == config


@pytest.mark.parametrize(
    ("assignment", "read"),
    [
        ("seed=7", lambda config: config.seed == 7),
        ("memory.budget=2MiB", lambda config: config.memory.budget == "2MiB"),
        ("memory.budget=3072", lambda config: config.memory.budget == "3072"),
        ("data.holdout_ratio=0.1", lambda config: config.data.holdout_ratio == 0.1),
        ("method.first.epochs = 3", lambda config: config.method.first.epochs == 3),
        ("stream.order=[3,1,2]", lambda config: config.stream.order == (3, 1, 2)),
        ("data.path=None", lambda config: config.data.path is None),
        ("memory.count_overhead=False", lambda config: config.memory.count_overhead is False),
        ("recipe=a=b", lambda config: config.recipe == "a=b"),
    ],
)
def test_a_setting_is_changed_by_its_name(assignment: str, read: object) -> None:
    changed = override(load_recipe("digits-er"), parse_settings([assignment], {}))
    assert callable(read)
    assert read(changed)


def test_the_last_of_two_values_counts() -> None:
    assert parse_settings(["seed=1", "seed=2"], {"seed": 0}) == {"seed": 2}


def test_a_schedule_of_later_tasks_starts_from_that_of_the_first() -> None:
    config = override(load_recipe("digits-er"), {"method.later.epochs": 2})
    first, later = config.method.first, config.method.later
    assert later == first.model_copy(update={"epochs": 2})


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_codec_and_its_settings_may_come_in_any_order(is_reversed: bool) -> None:
    changes = [("memory.codec.name", "patches"), ("memory.codec.mask_ratio", 0.5)]
    config = override(load_recipe("digits-er"), dict(changes[:: -1 if is_reversed else 1]))
    assert config.memory is not None
    assert config.memory.codec.model_dump() == {
        "name": "patches",
        "patch_size": 4,
        "mask_ratio": 0.5,
    }


def test_a_codec_may_be_told_by_its_name_alone() -> None:
    config = override(
        load_recipe("digits-er"), {"memory.codec": "patches", "memory.codec.patch_size": 8}
    )
    assert config.memory is not None
    assert config.memory.codec.model_dump()["patch_size"] == 8


@given(st.data())
def test_a_misspelt_setting_is_told_with_the_right_one(data: st.DataObject) -> None:
    config = load_recipe("digits-er")
    known = setting_paths(RunConfig, config.model_dump())
    right = data.draw(st.sampled_from([path for path in known if len(path) > 8]))
    place = data.draw(st.integers(1, len(right) - 1))
    wrong = f"{right[:place]}q{right[place:]}"
    with pytest.raises(InputError) as caught:
        override(config, {wrong: 1})
    assert str(caught.value) == f"{wrong} is not a setting. Did you mean {right}?"


def test_setting_paths_are_the_keys_of_config_json() -> None:
    config = load_recipe("digits-er")
    known = setting_paths(RunConfig, config.model_dump())
    assert {"seed", "memory.budget", "method.first.optimizer.lr", "method.later.epochs"} <= set(
        known
    )
    assert "method.backbone.name" in known
    assert len(known) == len(set(known))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"data": {}}, "data.dataset must be given."),
        ({"sed": 1}, "sed is not a setting. Did you mean seed?"),
        ({"stream": {"order": 3}}, "stream.order must be text; got 3."),
        ({"stream": {"task_sizes": []}}, "stream.task_sizes must have at least 1 entries; got []."),
        ({"method": {"name": "ee"}}, "method.name must be one of"),
        ({"memory": {"count_overhead": "perhaps"}}, "must be true or false; got perhaps."),
    ],
)
def test_what_is_wrong_is_one_sentence(changes: dict[str, object], sentence: str) -> None:
    values = load_recipe("digits-er").model_dump(mode="json")
    with pytest.raises(InputError) as caught:
        RunConfig.parse(values | changes)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Input should" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"seed": 1'])
def test_a_damaged_config_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"config\.json (is not valid JSON|must hold one JSON)"):
        load_config(path)


def test_nearest_says_nothing_where_nothing_is_near() -> None:
    assert nearest("zzz", ["er", "joint"]) == ""
    assert nearest("jiont", ["er", "joint"]) == " Did you mean joint?"
