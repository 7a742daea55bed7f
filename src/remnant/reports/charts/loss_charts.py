"""Loss terms over a run, from its events: binned so that a long run stays a small picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from remnant.runs.events import Json

_NUM_BINS = 240  # of the whole run


@dataclass(frozen=True)
class LossCurves:
    """Smoothed loss terms over all optimizer steps of a run."""

    terms: dict[str, tuple[np.ndarray, np.ndarray]]  # steps, means; a NaN parts two tasks
    task_starts: list[int]  # step at which each task begins


@dataclass
class _Segment:
    """The steps of one phase of one task."""

    num_steps: int = 0
    values: dict[int, Json] = field(default_factory=dict)  # a step repeated after a resume wins


def loss_curves(events: Sequence[Json]) -> LossCurves:
    segments: dict[tuple[int, str], _Segment] = {}
    for event in events:
        if event.get("event") == "step":
            segment = segments.setdefault((event["task"], event.get("phase", "")), _Segment())
            segment.values[event["step"]] = event.get("terms") or {"loss": event.get("loss")}
            segment.num_steps = max(
                segment.num_steps, event["step"] + 1, event.get("num_steps") or 0
            )
    offset, starts = 0, {}
    points: dict[str, dict[int, list[tuple[int, float]]]] = {}
    for (task, _), segment in segments.items():
        starts.setdefault(task, offset)
        for step in sorted(segment.values):
            for name, value in segment.values[step].items():
                if value is not None and math.isfinite(value):
                    by_task = points.setdefault(name, {})
                    by_task.setdefault(task, []).append((offset + step, value))
        offset += segment.num_steps
    curves = {name: _smooth(list(by_task.values())) for name, by_task in points.items()}
    return LossCurves(curves, list(starts.values()))


def _smooth(tasks: list[list[tuple[int, float]]]) -> tuple[np.ndarray, np.ndarray]:
    total = sum(len(points) for points in tasks)
    parts = []
    for points in tasks:
        num_bins = min(len(points), math.ceil(_NUM_BINS * len(points) / total))
        bins = np.array_split(np.array(points, dtype=float), num_bins)
        parts += [np.array([chunk.mean(axis=0) for chunk in bins]), np.full((1, 2), np.nan)]
    steps, means = np.concatenate(parts[:-1]).T
    return steps, means
