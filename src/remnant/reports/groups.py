"""Runs that repeat one another: the same settings under another seed, class order or place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from remnant.errors import InputError
from remnant.runs.events import Json, setting
from remnant.runs.run_folder import RunFolder, find_runs, read_run

# Settings in which repetitions of one experiment may differ, wherever they stand in a config.
_REPEATED = {"seed", "order", "recipe", "root", "data_root", "out"}
_MAX_NAMED_SETTINGS = 3


@dataclass(frozen=True)
class Spread:
    """Mean and sample deviation (n - 1) of one number over the runs of a group."""

    mean: float
    deviation: float | None  # None: a single run has none
    count: int


@dataclass(frozen=True)
class RunGroup:
    """Finished runs with equal settings but for seed, order and paths."""

    label: str  # unique within a comparison
    runs: tuple[RunFolder, ...]

    @property
    def first(self) -> RunFolder:
        return self.runs[0]

    def spread(self, value: Callable[[RunFolder], float | None]) -> Spread | None:
        """Over the runs that have the value; None where none has."""
        values = [number for run in self.runs if (number := value(run)) is not None]
        return spread_of(values) if values else None

    def curve(self) -> tuple[list[int], list[Spread]]:
        """Classes seen and accuracy after each task."""
        length = min(run.num_done_tasks for run in self.runs)
        columns = zip(*(run.result.accuracies[:length] for run in self.runs), strict=True)
        return self.first.classes_seen[:length], [spread_of(column) for column in columns]

    @property
    def has_twins(self) -> bool:
        """Two of the runs share seed and order, so they are no independent repetition."""
        return len({(run.result.seed, str(run.result.order)) for run in self.runs}) < len(self.runs)


def read_groups(folders: Iterable[Path]) -> tuple[list[RunGroup], list[RunFolder]]:
    """The groups among the runs in `folders` in order of appearance, and the unfinished runs.

    Raises:
        InputError: A folder holds no run, or no run is finished.
    """
    runs = [read_run(folder) for folder in find_runs(folders)]
    gathered: dict[str, list[RunFolder]] = {}
    for run in runs:
        if run.result.finished:
            gathered.setdefault(_settings_key(run.config), []).append(run)
    if not gathered:
        raise InputError(
            f"a comparison needs at least one finished run; none of the {len(runs)} is. "
            "Finish them with `remnant resume DIR`."
        )
    groups = [RunGroup(members[0].result.method, tuple(members)) for members in gathered.values()]
    return _with_labels(groups), [run for run in runs if not run.result.finished]


def is_pretrained(group: RunGroup) -> bool:
    """Whether the runs stand on an encoder that was trained on other images."""
    return bool(setting(group.first.config, "method.encoder"))


def by_kind(groups: Sequence[RunGroup]) -> list[list[RunGroup]]:
    """Those from scratch, then those on a pretrained encoder, which never share a table.

    ImageNet has shown an encoder most of what data sets contain.
    """
    kinds = [[group for group in groups if is_pretrained(group) == kind] for kind in (False, True)]
    return [kind for kind in kinds if kind]


def differing_settings(groups: Sequence[RunGroup]) -> dict[str, list[str]]:
    """Dotted names of the settings in which the groups differ, with the value in each group."""
    flat = [flatten(_comparable(group.first.config)) for group in groups]
    on = [_that_are_on(group.first.config) for group in groups]
    names = dict.fromkeys(name for values in flat for name in values)
    return {
        name: [_text(values.get(name)) for values in flat]
        for name in names
        if len({_text(values.get(name)) for values in on}) > 1
    }


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """A nested config as dotted names."""
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        flat |= flatten(inner, f"{prefix}.{name}" if prefix else str(name))
    return flat


def memory_text(run: RunFolder) -> str:
    """Codec and budget in a few words: `raw, 60KiB/class`."""
    if not setting(run.config, "memory"):
        return "none"
    codec = setting(run.config, "memory.codec")
    name = codec.get("name") if isinstance(codec, dict) else codec
    budget = setting(run.config, "memory.budget")
    text = ", ".join(str(part) for part in (name, budget) if part)
    return text + (
        " (pixels only)" if setting(run.config, "memory.count_overhead") is False else ""
    )


def order_text(run: RunFolder) -> str:
    """The class order of a run in one word."""
    order = run.result.order
    return order if isinstance(order, str) else "default" if order is None else "given"


def _with_labels(groups: list[RunGroup]) -> list[RunGroup]:
    """Name each group by its method; where methods repeat, add what tells them apart."""
    labelled = []
    for group in groups:
        rivals = [other for other in groups if other.label == group.label]
        recipes = {other.first.result.recipe for other in rivals}
        memories = {memory_text(other.first) for other in rivals}
        label = group.label
        if len(rivals) == len(recipes) > 1 and "" not in recipes:
            label = group.first.result.recipe
        elif len(rivals) == len(memories) > 1:
            label += f" ({memory_text(group.first)})"
        elif len(rivals) > 1:
            label += f" ({_distinction(group, rivals)})"
        labelled.append(replace(group, label=label))
    return labelled


def _distinction(group: RunGroup, rivals: Sequence[RunGroup]) -> str:
    """The first settings in which a group differs from others of its method."""
    position = [other is group for other in rivals].index(True)
    differences = differing_settings(rivals)
    named = [f"{name}={values[position]}" for name, values in differences.items()]
    shown = named[:_MAX_NAMED_SETTINGS]
    # Shown in part, the settings may agree; the folder is always the group's own.
    return ", ".join(shown if len(named) == len(shown) else [*shown, group.first.name])


def _comparable(config: Any) -> Any:
    if not isinstance(config, dict):
        return config
    return {name: _comparable(value) for name, value in config.items() if name not in _REPEATED}


def _that_are_on(config: Any) -> dict[str, Any]:
    """Settings by dotted names, without those that are off: an older run does not know all."""
    return {name: value for name, value in flatten(_comparable(config)).items() if value}


def _settings_key(config: Json) -> str:
    return json.dumps(_that_are_on(config), sort_keys=True)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def spread_of(values: Sequence[float]) -> Spread:
    """Mean and standard deviation of at least one number."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Spread(float(np.mean(values)), deviation, len(values))


# ---------------------------------------------------------------------- what is not comparable


def unequal_terms(groups: Sequence[RunGroup]) -> list[str]:
    """Sentences on what makes a comparison unfair: other streams, schedules or numbers of passes.

    Groups on different data sets are meant to stand beside one another, and are not compared.
    """
    found: list[str] = []
    for dataset in dict.fromkeys(group.first.result.dataset for group in groups):
        members = [group for group in groups if group.first.result.dataset == dataset]
        found += [sentence for kind in by_kind(members) for sentence in _unequal(kind, dataset)]
    return found


def _unequal(members: Sequence[RunGroup], dataset: str) -> list[str]:
    found: list[str] = []
    for what, describe in _TERMS.items():
        described = {group.label: describe(group) for group in members}
        values = [value for value in described.values() if value]
        if len(set(values)) > 1:
            each = "; ".join(f"{name}: {value}" for name, value in described.items() if value)
            found.append(f"{what} on {dataset} differ ({each}).")
    return found


def _stream_text(group: RunGroup) -> str:
    sizes = group.first.result.task_sizes
    if len(set(sizes)) == 1:
        return f"{len(sizes)} tasks of {sizes[0]}"
    return f"tasks of {', '.join(str(size) for size in sizes)}"


def _images_text(group: RunGroup) -> str:
    names = ("image_size", "images_per_class", "holdout_ratio")
    values = {name: setting(group.first.config, f"data.{name}") for name in names}
    return ", ".join(f"{name}={_text(value)}" for name, value in values.items() if value) or "all"


def _schedule_text(group: RunGroup) -> str:
    first, later = (setting(group.first.config, f"method.{name}") for name in ("first", "later"))
    epochs = [one.get("epochs") for one in (first, later) if isinstance(one, dict)]
    return ", then ".join(f"{count} epochs" for count in epochs)


def _passes_text(group: RunGroup) -> str:
    """To a tenth of the number: what differs by less is no other schedule."""
    passes = group.first.result.passes_over_new
    if not passes:
        return ""
    mean = sum(passes) / len(passes)
    return f"{mean:.0f}" if mean >= 10 else f"{mean:.1f}"


_TERMS: dict[str, Callable[[RunGroup], str]] = {
    "Streams": _stream_text,
    "Images": _images_text,
    "Epochs": _schedule_text,
    "Passes over new images": _passes_text,
}
