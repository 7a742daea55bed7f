"""`remnant list`: what there is, read from the tables in the code, so that it is never outdated."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal, get_args

from remnant.cli import console
from remnant.errors import InputError

if TYPE_CHECKING:
    from remnant.terminal.tables import Rows

Kind = Literal["methods", "datasets", "recipes", "codecs"]

_ABOUT: dict[Kind, str] = {
    "methods": "ways to learn new classes",
    "datasets": "images to learn from",
    "recipes": "complete settings of a run",
    "codecs": "ways to store images in memory",
}


def list_(
    what: Kind | None = None,
    filter: str = "",
    /,
    *,
    as_json: console.JsonOption = False,
) -> None:
    """List methods, datasets, recipes or codecs; without an argument, how many there are of each.

    Parameters
    ----------
    what
        What to list.
    filter
        Show only names that contain this text, as in `remnant list recipes cifar100-mini`.
    """
    from remnant.terminal.tables import recipe_lines, table_of

    rows = _overview() if what is None else _containing(filter, what)
    if as_json:
        console.print_json(rows)
    elif what is None:
        console.out.print(table_of([row | {"type": f"remnant list {row['name']}"} for row in rows]))
    elif what == "datasets":
        print_datasets(rows)
    elif what == "recipes":
        for line in recipe_lines(rows, console.out.width):
            console.out.print(line, markup=False)
        console.suggest("remnant show RECIPE")
    else:
        console.out.print(table_of(rows))


def _overview() -> Rows:
    return [
        {"name": kind, "count": len(_list_entries(kind)), "about": _ABOUT[kind]}
        for kind in get_args(Kind)
    ]


def _containing(text: str, kind: Kind) -> Rows:
    rows = [row for row in _list_entries(kind) if text in row["name"]]
    if not rows:
        raise InputError(
            f"none of the {kind} has {text!r} in its name. See them all: remnant list {kind}."
        )
    return rows


def _list_entries(kind: Kind) -> Rows:
    """One row per entry of a table, with its name and what it is."""
    from remnant.memory import CODECS
    from remnant.methods import METHODS
    from remnant.recipes import RECIPES, describe_recipe

    if kind == "datasets":
        return list_datasets(None)
    if kind == "recipes":
        return [{"name": name, "about": describe_recipe(name)} for name in RECIPES]
    if kind == "codecs":
        return [
            {"name": name, "about": _first_line(codec.Config)} for name, codec in CODECS.items()
        ]
    return [
        {
            "name": name,
            "memory": method.uses_memory,
            "about": _first_line(sys.modules[method.__module__]),
        }
        for name, method in METHODS.items()
    ]


def _first_line(documented: object) -> str:
    return (documented.__doc__ or "").strip().partition("\n")[0]


def list_datasets(root: str | None) -> Rows:
    """One row per data set; `present` tells whether its files are under the data root."""
    from remnant.data import DATASETS, data_root

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


def print_datasets(rows: Rows) -> None:
    """The rows of `list_datasets` as a table, and how to get the first one that is missing."""
    from remnant.terminal.tables import dataset_rows, table_of

    console.out.print(table_of(dataset_rows(rows)))
    absent = [row["name"] for row in rows if row["download_bytes"] and not row["present"]]
    if absent:
        console.suggest(f"remnant data get {absent[0]}")
