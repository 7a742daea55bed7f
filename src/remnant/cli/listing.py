"""Everything remnant can do, read off the code, so that no document can drift from it."""

from __future__ import annotations

import sys
from typing import Any

from remnant.data import DATASETS, data_root
from remnant.memory import CODECS
from remnant.methods import METHODS
from remnant.recipes import RECIPES, describe_recipe

Rows = list[dict[str, Any]]


def list_entries(what: str) -> Rows:
    """One row per entry, with a name and what it is."""
    listings = {
        "methods": _list_methods,
        "datasets": lambda: list_datasets(None),
        "recipes": _list_recipes,
        "codecs": _list_codecs,
    }
    return listings[what]()


def list_datasets(root: str | None) -> Rows:
    folder = data_root(root)
    return [
        {
            "name": spec.name,
            "title": spec.facts.title,
            "classes": spec.facts.num_classes,
            "image_size": spec.facts.image_size,
            "train_per_class": spec.facts.train_per_class,
            "test_per_class": spec.facts.test_per_class,
            "present": spec.is_present(folder),
            "download_bytes": spec.facts.download_bytes,
            "source": spec.facts.source,
        }
        for spec in DATASETS.values()
    ]


def _list_methods() -> Rows:
    return [
        {"name": name, "memory": method.uses_memory, "about": _module_summary(method)}
        for name, method in METHODS.items()
    ]


def _list_recipes() -> Rows:
    return [{"name": name, "about": describe_recipe(name)} for name in RECIPES]


def _list_codecs() -> Rows:
    return [{"name": name, "about": _first_line(entry.config)} for name, entry in CODECS.items()]


def _module_summary(kind: type) -> str:
    return _first_line(sys.modules[kind.__module__])


def _first_line(documented: object) -> str:
    return (documented.__doc__ or "").strip().splitlines()[0]
