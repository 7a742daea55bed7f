"""Which method and codec each recipe uses, looked up once: there are hundreds of recipes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from remnant.recipes import RECIPES


@dataclass(frozen=True)
class Entry:
    recipe: str
    preset: str
    method: str
    codec: str | None  # None: the preset leaves it to the protocol


@cache
def recipe_index() -> tuple[Entry, ...]:
    setups: dict[tuple[str, str], tuple[str, str | None]] = {}
    found = []
    for name, recipe in RECIPES.items():
        key = (recipe.preset.name, recipe.protocol.scale)
        if key not in setups:
            setup = recipe.setup
            codec = None if setup.codec is None else setup.codec.name
            setups[key] = setup.method.name, codec
        found.append(Entry(name, recipe.preset.name, *setups[key]))
    return tuple(found)
