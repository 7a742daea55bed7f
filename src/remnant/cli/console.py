"""Consoles and options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console

from remnant.errors import InputError

out = Console(highlight=False, soft_wrap=True)
notes = Console(stderr=True, highlight=False, soft_wrap=True)

JsonOption = Annotated[
    bool, Parameter(name="--json", negative="", help="Print one JSON document and nothing else.")
]
DataRoot = Annotated[
    Path | None,
    Parameter(help="Folder of the data sets. Default: $REMNANT_DATA, or a cache folder."),
]
SetOption = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        negative="",
        help="Setting as key=value, with keys as in config.json. Repeatable.",
    ),
]


GridOption = Annotated[
    list[str] | None,
    Parameter(
        name="--grid",
        negative="",
        help="Several values of a setting, as key=value,value: a run for each. Repeatable.",
    ),
]


def parse_grid(texts: list[str] | None) -> dict[str, list[Any]]:
    """The values of each setting given by --grid.

    Raises:
        InputError: A text is not key=value,value, or a setting comes twice.
    """
    grid: dict[str, list[Any]] = {}
    for text in texts or ():
        key, equals, values = (part.strip() for part in text.partition("="))
        parts = _split_values(values)
        if not equals or not key or not all(part.strip() for part in parts):
            raise InputError(f"--grid must be key=value,value; got {text!r}.")
        if key in grid:
            raise InputError(f"--grid takes each setting once; got {key} twice.")
        grid[key] = [_parse_assignment(f"{key}={part}")[1] for part in parts]
    return grid


def _split_values(text: str) -> list[str]:
    """At commas, but not at those inside brackets or braces."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "[{") - (sign in "]}")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def split_names(option: str, text: str | None) -> list[str]:
    """The values of an option such as --seeds 1,2,3; none without a text.

    Raises:
        InputError: One of them is empty or comes twice.
    """
    parts = [] if text is None else [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InputError(f"{option} takes values with commas between them; got {text!r}.")
    if twice := [part for part in parts if parts.count(part) > 1]:
        raise InputError(f"{option} takes each value once; got {twice[0]} twice.")
    return parts


def parse_settings(
    texts: list[str] | None, options: dict[str, Any], option: str = "--set"
) -> dict[str, Any]:
    """The settings given by --set and by options of their own; an option of None is left out.

    Raises:
        InputError: A text is not key=value.
    """
    given = {key: value for key, value in options.items() if value is not None}
    return given | dict(_parse_assignment(text, option) for text in texts or ())


def _parse_assignment(text: str, option: str = "--set") -> tuple[str, Any]:
    """Key and value of `key=value`; a value that is not valid JSON is text."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise InputError(f"{option} must be key=value; got {text!r}.")
    try:
        return key, json.loads(value)
    except (ValueError, RecursionError):  # no JSON, or a number of thousands of digits
        return key, {"None": None, "True": True, "False": False}.get(value, value)


def configure(recipe: str, settings: dict[str, Any], data_root: Path | None) -> Any:
    """The config of a recipe with settings changed, and with its images at `data_root`."""
    from remnant.config import override
    from remnant.recipes import load_recipe

    config = load_recipe(recipe)
    return override(config, place_of(config.data.dataset, data_root) | settings)


def place_of(dataset: str, data_root: Path | None) -> dict[str, str]:
    """The setting that --data-root stands for: a folder of images, or of data sets.

    Raises:
        InputError: There is no such data set.
    """
    from remnant.data import DATASETS

    place = DATASETS.find(dataset, "data.dataset").place_setting
    return {} if data_root is None else {place: str(data_root)}


def option_words(settings: list[str] | None, data_root: Path | None) -> list[str]:
    """--set and --data-root as they were given, for a command to suggest."""
    words = [word for one in settings or () for word in ("--set", one)]
    return words if data_root is None else [*words, "--data-root", str(data_root)]


def check_page(option: str, path: Path | None) -> None:
    """Raises InputError where an option names a folder in place of a page to write."""
    if path is not None and path.is_dir():
        raise InputError(f"{option} must be a file; got the folder {path}. Add a file name.")


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, sort_keys=True, allow_nan=False))


def suggest(*command: str) -> None:
    """Print a useful next command."""
    notes.print(f"next: {' '.join(command)}", style="dim", markup=False)


@contextmanager
def counting(name: str, *, in_bytes: bool) -> Iterator[Any]:
    """A progress bar that appears at the first count, so that a cached result shows none."""
    from rich.progress import DownloadColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (*Progress.get_default_columns()[:-1], amount, TimeRemainingColumn())
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as bar:
        rows: list[Any] = []

        def count(done: int, total: int | None) -> None:
            if not rows:
                rows.append(bar.add_task(name))
            bar.update(rows[0], completed=done, total=total)

        yield count


def class_label(name: str, classes: Sequence[str | int]) -> str | int:
    """A class as a user types it, as a store has it: text or a whole number."""
    is_numbered = not isinstance(classes[0], str)
    return int(name) if is_numbered and name.removeprefix("-").isdecimal() else name
