"""One run folder -> `report.html`, a page that needs nothing else: no network, no other file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from remnant.files import read_json_object, write_text
from remnant.reports.charts.run_charts import CHARTS, draw_figures
from remnant.reports.embed import inline_svg, raster_address
from remnant.reports.groups import flatten, memory_text, order_text
from remnant.reports.page import Picture, render_page, value_text
from remnant.reports.result_tables import headlines
from remnant.reports.units import bytes_text, count_text, percent_text
from remnant.runs.run_folder import FIGURES, MEMORY_PICTURE, REPORT, RunFolder, read_run

_PICTURE_BYTES = 1_900_000  # of all rasters together, so that a page stays below 3 MB
_MAX_SVG_BYTES = 400_000
_MAX_TASKS = 40  # with a row and a column of the table
_DENSITIES = {
    "pi": "Feature density: intra over inter",
    "intra": "Mean cosine similarity within a class",
    "inter": "Mean cosine similarity between classes",
    "pi_roth": "By distances: within a class over between centres",
}


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Draw the charts of one run anew and write its page, by default `report.html` in the folder.

    Raises:
        InputError: `folder` is no run folder, or one of its files is damaged.
    """
    draw_figures(folder)
    page = folder / REPORT if out is None else out
    write_text(page, _run_page(read_run(folder)))
    return page


def _run_page(run: RunFolder) -> str:
    gallery, extras = _rasters(run)
    return render_page(
        "run.html.j2",
        run=run,
        result=run.result,
        order=order_text(run),
        memory=memory_text(run),
        headlines=headlines(run),
        matrix=_matrix_rows(run),
        charts={chart.name: _chart(run, chart.name) for chart in CHARTS},
        measures=_measures(run),
        ledger=_ledger_rows(run),
        gallery=gallery,
        extras=extras,
        config={name: value_text(value) for name, value in flatten(run.config).items()},
        environment={name: value_text(value) for name, value in flatten(run.environment).items()},
    )


def _matrix_rows(run: RunFolder) -> list[dict[str, Any]]:
    """One row per completed task: its classes, accuracy on each task so far, and on all.

    Of many tasks some, from the first to the last: a table of 500 by 500 has a million tags.
    """
    result, rows = run.result, []
    count = len(result.accuracies)
    shown = np.linspace(0, count - 1, min(count, _MAX_TASKS)).round().astype(int).tolist()
    for index in shown:
        cells = _at(result.accuracy_matrix, index, [])
        rows.append(
            {
                "task": index + 1,
                "classes": run.task_names(index),
                "cells": [cells[task] for task in shown if task < len(cells)],
                "accuracy": result.accuracies[index],
                "top5": _at(result.top5_accuracies, index, None),
                "seconds": _at(result.seconds_per_task, index, None),
                "parameters": _at(result.parameters_per_task, index, None),
                "flops": _at(result.predict_flops_per_task, index, None),
            }
        )
    return rows


def _at(values: Sequence[Any], index: int, missing: Any) -> Any:
    return values[index] if index < len(values) else missing


def _chart(run: RunFolder, name: str) -> Picture | None:
    chart = next(chart for chart in CHARTS if chart.name == name)
    path = run.path / FIGURES / f"{name}.svg"
    if not path.is_file():
        return None
    svg = inline_svg(path.read_bytes(), name, f"{chart.title}. {chart.caption}")
    return Picture(name, chart.title, chart.caption, svg=svg)


def _measures(run: RunFolder) -> list[tuple[str, str, str]]:
    """The numbers beside the headlines: name, value, meaning."""
    result, rows = run.result, []
    for name, value, meaning in (
        ("Top-5 average", result.top5_average, "Percent; the label is among the five best guesses"),
        ("Backward transfer", result.backward_transfer,
         "Points; mean change of a task since it was learned"),
    ):  # fmt: skip
        if value is not None:
            rows.append((name, percent_text(value, 2), meaning))
    for name, meaning in _DENSITIES.items():
        value = (result.density or {}).get(name)
        if value is not None:
            rows.append((f"Density {name}".replace("_", " "), f"{value:.3f}", meaning))
    for branch, scores in (result.reconstruction[-1] if result.reconstruction else {}).items():
        for score, unit in (("psnr", " dB"), ("ssim", "")):
            if score in scores:
                name = f"{score.upper()} of redrawn images, {branch}"
                rows.append(
                    (name, f"{scores[score]:.2f}{unit}", "Test images, after the last task")
                )
    for name, size in result.kept_bytes.items():
        rows.append(
            (f"Kept: {name}".replace("_", " "), bytes_text(size), "Carried from task to task")
        )
    for name, value in (result.flops_per_image or {}).items():
        if value is not None:
            rows.append((f"FLOPs to {name}", count_text(value), "Per image"))
    return rows


def _ledger_rows(run: RunFolder) -> list[tuple[str, int, str]]:
    """Entry, bytes and share of the budget."""
    memory, counted = run.result.memory, run.counted_ledger
    if memory is None or not counted:
        return []
    whole = memory.budget_bytes or memory.used_bytes
    rows = [(name, size, f"{percent_text(100 * size / whole)} %") for name, size in counted.items()]
    for name, size in memory.ledger.items():
        if isinstance(size, dict):
            rows += [(f"{name}: {part}", inner, "fixed") for part, inner in size.items()]
        elif name not in counted:
            rows.append((name, size, "not counted"))
    return rows


def _rasters(run: RunFolder) -> tuple[Picture | None, list[Picture]]:
    """The gallery of the memory, and the pictures that a method added, in name order."""
    folder = run.path / FIGURES
    extras = [path for path in sorted(folder.glob("extra-*")) if path.suffix in (".svg", ".png")]
    rasters = [path for path in [folder / MEMORY_PICTURE, *extras] if path.suffix == ".png"]
    share = _PICTURE_BYTES // len(rasters)
    gallery = None
    if rasters[0].is_file():
        title, caption = "What the memory holds", "The first exemplars of each class, best first."
        address = raster_address(rasters[0], share)
        gallery = Picture("memory", title, caption, address=address)
    return gallery, [_extra(path, share) for path in extras]


def _extra(path: Path, max_bytes: int) -> Picture:
    words_path = path.with_suffix(".json")
    words = read_json_object(words_path, "the words of a picture") if words_path.is_file() else {}
    title = str(words.get("title") or path.stem.removeprefix("extra-").replace("-", " "))
    caption = str(words.get("caption") or "")
    where = f"figures/{path.name}"
    if path.suffix == ".png":
        address = raster_address(path, max_bytes)
        return Picture(path.stem, title, caption, address=address, path=where)
    if path.stat().st_size > _MAX_SVG_BYTES:
        return Picture(path.stem, title, caption, path=where)
    svg = inline_svg(path.read_bytes(), path.stem, f"{title}. {caption}")
    return Picture(path.stem, title, caption, svg=svg, path=where)
