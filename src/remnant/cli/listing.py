"""Everything remnant can do, read off the code, so that no document can drift from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from remnant.data import ARCHIVES, DATASETS, data_root
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
            "name": facts.name,
            "title": facts.title,
            "classes": facts.num_classes,
            "image_size": facts.image_size,
            "train_per_class": facts.train_per_class,
            "test_per_class": facts.test_per_class,
            "present": _is_present(facts.name, folder),
            "download_bytes": facts.download_bytes,
            "source": facts.source,
        }
        for facts in DATASETS.values()
    ]


def _is_present(name: str, root: Path) -> bool:
    if name in ARCHIVES:
        return ARCHIVES[name].is_complete(root)
    return not name.startswith("imagenet") or (root / "imagenet" / "train").is_dir()


def _list_methods() -> Rows:
    return [
        {"name": name, "memory": method.uses_memory, "about": _module_summary(method)}
        for name, method in METHODS.items()
    ]


def _list_recipes() -> Rows:
    return [{"name": name, "about": describe_recipe(name)} for name in RECIPES]


def _list_codecs() -> Rows:
    return [{"name": name, "about": _first_line(codec.Config)} for name, codec in CODECS.items()]


def _module_summary(kind: type) -> str:
    return _first_line(sys.modules[kind.__module__])


def _first_line(documented: object) -> str:
    return (documented.__doc__ or "").strip().splitlines()[0]
