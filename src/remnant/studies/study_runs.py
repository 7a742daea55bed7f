"""The runs of a study: which configs its rows, columns and seeds stand for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remnant.config import RunConfig, load_config, override, settle
from remnant.data import DATASETS
from remnant.errors import InputError
from remnant.recipes import PROTOCOLS, RECIPES, load_recipe
from remnant.runs.run_folder import CONFIG, is_finished
from remnant.studies.study import Column, Row, Study, StudyScale

# What may differ between two runs of the same experiment: where files are, and the machine.
_OF_THE_MACHINE = {"training": True, "recipe": True, "data": {"root", "workers"}}
_PRESENTATION = "method.presentation"


@dataclass(frozen=True)
class StudyRun:
    """One run of a study: a row under a column with a seed."""

    row: str
    column: str
    seed: int
    name: str  # of its folder, the same in every study that has this run
    config: RunConfig

    def is_done(self, runs: Path) -> bool:
        """Whether the folder has this run, finished.

        Raises:
            InputError: It has another run under this name.
        """
        folder = runs / self.name
        if not (folder / CONFIG).exists():
            return False
        if not is_same(load_config(folder / CONFIG), self.config):
            raise InputError(
                f"{folder} has a run with other settings than the study's. "
                "Choose another --out, or move that folder away."
            )
        return is_finished(folder)


def in_precision(run: StudyRun, precision: str) -> StudyRun:
    """The same run, to be trained in this precision unless it has started."""
    return replace(run, config=override(run.config, {"training.precision": precision}))


def is_same(one: RunConfig, other: RunConfig) -> bool:
    """Whether two configs stand for the same run, whatever the machine."""
    return _essence(one) == _essence(other)


def _essence(config: RunConfig) -> dict[str, Any]:
    return settle(config).model_dump(mode="json", exclude=_OF_THE_MACHINE)  # type: ignore[arg-type]


def runs_of(
    study: Study,
    scale: StudyScale,
    seeds: Sequence[int] = (0,),
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> list[StudyRun]:
    """The runs of a study, or of some of its rows and columns, in the order of its table.

    A row that has no recipe under a column has no run there.

    Raises:
        InputError: The study has no such scale, row or column.
    """
    chosen_rows = [study.row(name) for name in rows] or list(study.rows)
    chosen_columns = [study.column(scale, name) for name in columns] or study.columns_at(scale)
    absent = [row.name for row in chosen_rows if rows and not row.preset]
    if absent:
        raise InputError(
            f"{', '.join(absent)} of {study.name} is not in remnant yet; only what was printed of "
            "it is. Leave it out of --rows."
        )
    found: list[StudyRun] = []
    for column in study.columns_at(scale):
        for row in study.rows:
            config = config_of(row, column, scale)
            if config is not None:
                found += _with_seeds(study, row, column, config, seeds)
    cells = {(row.name, column.name) for row in chosen_rows for column in chosen_columns}
    # Named before they are chosen, so that a run has one name whatever else is asked for.
    return [run for run in _sharing_names(found) if (run.row, run.column) in cells]


def _sharing_names(runs: list[StudyRun]) -> list[StudyRun]:
    """Where a column changes nothing for a row, its run is that of the column before."""
    names: dict[str, str] = {}
    return [
        replace(run, name=names.setdefault(json.dumps(_essence(run.config)), run.name))
        for run in runs
    ]


def config_of(row: Row, column: Column, scale: StudyScale) -> RunConfig | None:
    """The config of a cell, but for its seed; None where the row has no recipe there."""
    name = _recipe_of(row, column, scale)
    if name not in RECIPES:
        return None
    recipe = load_recipe(name)
    return override(recipe, _settings_of(recipe, {**column.changes, **row.changes}))


def _recipe_of(row: Row, column: Column, scale: StudyScale) -> str:
    protocol = PROTOCOLS[column.protocol]
    return f"{protocol.start}-{row.preset_at(scale)}{protocol.end}"


def _settings_of(config: RunConfig, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes that concern this method: DER has no presentation, fine-tuning no memory.

    Raw exemplars look like new images already, so that their presentation changes nothing.
    """
    values = config.model_dump(mode="json")
    settings = {
        key: value
        for key, value in changes.items()
        if not key.startswith(("method.", "memory.")) or _has(values, key.split("."))
    }
    presentation = settings.pop(_PRESENTATION, None)
    memory = override(config, settings).memory
    if presentation is not None and memory is not None and memory.codec.name != "raw":
        settings[_PRESENTATION] = presentation
    return settings


def _has(values: Any, path: list[str]) -> bool:
    for name in path:
        if not isinstance(values, dict) or name not in values:
            return False
        values = values[name]
    return True


def _with_seeds(
    study: Study, row: Row, column: Column, config: RunConfig, seeds: Sequence[int]
) -> list[StudyRun]:
    name = _name_of(row, column, config)
    found = []
    for seed in seeds:
        own, mark = config.model_copy(update={"seed": seed}), ""
        order = study.orders[seed % len(study.orders)]
        if not _has_order(config, order):
            own = own.model_copy(update={"stream": own.stream.model_copy(update={"order": order})})
            mark = f"-order-{order}".replace(":", "-")
        mark += f"-seed-{seed}" if seed else ""
        found.append(StudyRun(row.name, column.name, seed, name + mark, own))
    return found


def _has_order(config: RunConfig, order: str) -> bool:
    """Whether the classes come in this order already, by its name or as the data set's default."""
    default = DATASETS[config.data.dataset].facts.default_order
    own = default if config.stream.order == "default" else config.stream.order
    return own == (default if order == "default" else order)


def _name_of(row: Row, column: Column, config: RunConfig) -> str:
    """The recipe, then what sets the run apart from it; studies share runs by these names."""
    plain = load_recipe(config.recipe)
    if is_same(config, plain):
        return config.recipe
    parts, before = [config.recipe], plain
    own = row.name.removeprefix(f"{row.preset}-")
    for mark, changes in ((column.name, column.changes), (own, row.changes)):
        after = override(before, _settings_of(plain, changes))
        if not is_same(after, before):
            parts.append(mark)
        before = after
    return "-".join(parts)
