"""Named runs: `<dataset>[-<scale>]-<method>[-<variant>][-<tasks>]`.

A recipe is a preset (a method, ready to run) under a protocol (what is learned, and how much may be
kept of it). To add a method: its presets in a file beside this one, and its name in the list below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from remnant.config import RunConfig, load_config
from remnant.errors import InputError, nearest
from remnant.recipes import (
    a_gem_presets,
    bic_presets,
    bimae_presets,
    cim_presets,
    dark_replay_presets,
    dytox_presets,
    er_presets,
    ewc_presets,
    expandable_presets,
    expandable_pruned_presets,
    finetune_presets,
    frozen_presets,
    gem_presets,
    gfr_presets,
    icarl_presets,
    joint_presets,
    lwf_presets,
    mecil_presets,
    mnemonics_presets,
    mrdc_presets,
    podnet_presets,
    prototype_augmentation_presets,
    simple_expandable_presets,
    tagfex_presets,
    ucir_presets,
    wa_presets,
)
from remnant.recipes.presets import Preset, Published, Setup, check_preset
from remnant.recipes.protocols import PROTOCOLS, Protocol
from remnant.recipes.recipe import Measured, Recipe, count_trials
from remnant.registry import Registry

__all__ = [
    "PRESETS", "PROTOCOLS", "RECIPES", "Measured", "Preset", "Protocol", "Published", "Recipe",
    "Setup", "count_trials", "describe_recipe", "load_recipe",
]  # fmt: skip

PRESETS: Registry[Preset] = Registry(
    "preset",
    "remnant.recipes",
    [
        finetune_presets.PRESET,
        er_presets.PRESET,
        dark_replay_presets.PRESET,
        gem_presets.PRESET,
        a_gem_presets.PRESET,
        lwf_presets.PRESET,
        ewc_presets.PRESET,
        prototype_augmentation_presets.PRESET,
        icarl_presets.PRESET,
        wa_presets.PRESET,
        ucir_presets.PRESET,
        bic_presets.PRESET,
        podnet_presets.PRESET,
        expandable_presets.PRESET,
        expandable_pruned_presets.PRESET,
        simple_expandable_presets.PRESET,
        tagfex_presets.PRESET,
        *dytox_presets.PRESETS,
        *bimae_presets.PRESETS,
        gfr_presets.PRESET,
        mecil_presets.PRESET,
        mnemonics_presets.PRESET,
        mrdc_presets.PRESET,
        cim_presets.PRESET,
        joint_presets.PRESET,
        *frozen_presets.PRESETS,
    ],
    name_of=lambda preset: preset.name,
    check=check_preset,
)


class _Recipes(Mapping[str, Recipe]):
    """Every preset under each of its protocols, by name, and what is set by hand."""

    def __init__(self, by_hand: dict[str, Recipe]) -> None:
        self._by_hand = by_hand

    def _all(self) -> dict[str, Recipe]:
        product = (
            Recipe(f"{protocol.start}-{preset.name}{protocol.end}", preset, protocol)
            for protocol in PROTOCOLS.values()
            for preset in PRESETS.values()
            if protocol.name in preset.protocols
        )
        # First in the list, and not replaced by a product of the same name.
        return self._by_hand | {recipe.name: recipe for recipe in product} | self._by_hand

    def __getitem__(self, name: str) -> Recipe:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


RECIPES = _Recipes({"demo": Recipe("demo", bimae_presets.DEMO, PROTOCOLS["digits"])})


def load_recipe(name: str) -> RunConfig:
    """The config of a recipe, or of a JSON file such as a run folder's config.json."""
    if name in RECIPES:
        return RECIPES[name]()
    if name.endswith(".json"):
        return load_config(Path(name))
    raise InputError(
        f"{name!r} is not a recipe.{nearest(name, RECIPES)} See remnant list recipes, or give the "
        "path of a config.json."
    )


def describe_recipe(name: str) -> str:
    """What a recipe is, in one line."""
    return RECIPES[name].about
