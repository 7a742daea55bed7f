"""What a preset brings, from this package and from others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from remnant.errors import InputError
from remnant.memory import parse_budget
from remnant.methods.bimae import BiMAEConfig
from remnant.recipes import PRESETS, RECIPES, Preset, Published, load_recipe
from remnant.recipes.presets import check_preset

ER = PRESETS["er"]
MINE = replace(ER, name="er-mine", protocols=("digits", "cifar100-20"), published=())


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    PRESETS.pop(MINE.name, None)


def test_a_registered_preset_brings_a_recipe_for_each_of_its_protocols() -> None:
    before = set(RECIPES)
    PRESETS.register(MINE)
    assert set(RECIPES) - before == {"digits-er-mine", "cifar100-er-mine-20"}
    assert load_recipe("digits-er-mine").method == load_recipe("digits-er").method


def test_a_preset_of_another_package_is_found_by_its_entry_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point = EntryPoint("mine", f"{__name__}:MINE", PRESETS.group)
    monkeypatch.setattr(PRESETS, "_waiting", [point])
    assert load_recipe("digits-er-mine").recipe == "digits-er-mine"


@pytest.mark.parametrize("name", PRESETS)
def test_own_presets_keep_the_rules_for_those_of_others(name: str) -> None:
    check_preset(PRESETS[name])


@pytest.mark.parametrize(
    ("preset", "sentence"),
    [
        (replace(MINE, protocols=("cifar100-11",)), "Did you mean cifar100-10?"),
        (replace(MINE, setups={"digits": ER.setups["digits"]}), "needs a setup 'cifar100'"),
        (replace(MINE, published=(Published("cifar100-10", 1, 2, 3, "me"),)), "but no recipe"),
        ("er", "must be a Preset"),
        (replace(MINE, name="er"), "already a preset named 'er'"),
    ],
)
def test_a_preset_that_cannot_be_used_is_refused(preset: Preset, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        PRESETS.register(preset)


def test_a_recipe_knows_its_command_and_its_numbers() -> None:
    recipe = RECIPES["cifar100-mini-er"]
    assert recipe.command == "remnant run cifar100-mini-er"
    assert recipe.published == ()
    assert recipe.measured is not None
    assert recipe.measured.hours > 0
    assert "cores" in recipe.measured.hardware
    printed = {row.protocol for row in RECIPES["cifar100-bimae-20"].published}
    assert printed == {"cifar100-20"}
    assert RECIPES["cifar100-bimae-20"].measured is None


@pytest.mark.parametrize(
    ("name", "view"),
    [
        ("cifar100-mini-bimae", "window"),
        ("tiny-imagenet-mini-bimae", "window"),
        ("digits-bimae", "full"),
    ],
)
def test_the_best_options_keep_whole_coded_images_and_learn_by_convolutions(
    name: str, view: str
) -> None:
    config = load_recipe(name)
    assert config.memory is not None
    assert config.memory.codec.name == "transform"
    assert isinstance(config.method, BiMAEConfig)
    assert (config.method.network.encoder, config.method.view) == ("conv", view)
    patches = load_recipe(f"{name}-patches")
    assert patches.memory is not None
    assert patches.memory.codec.name == "patches"


def test_the_demo_keeps_less_of_a_class_than_one_raw_image() -> None:
    memory = load_recipe("demo").memory
    assert memory is not None
    assert parse_budget(memory.budget, 3072).bytes < 3072
