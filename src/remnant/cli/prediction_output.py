"""Predictions for files printed as lines, as JSON or as CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from remnant.cli import console
from remnant.terminal.visible import visible

if TYPE_CHECKING:
    from remnant.learner.predictor import FilePrediction


def report_errors(predictions: Iterable[FilePrediction]) -> Iterator[FilePrediction]:
    for one in predictions:
        if one.error is not None:
            message = f"remnant: {visible(one.error)}"
            console.notes.print(message, style="bold red", markup=False)
        yield one


def print_lines(predictions: Iterable[FilePrediction]) -> int:
    """Print a line per file; returns how many files failed, as do the other two."""
    num_failed = 0
    for one in predictions:
        if one.error is not None:
            num_failed += 1
            continue
        best = ", ".join(
            f"{visible(name)} {100 * probability:.1f} %" for name, probability in one.top
        )
        answer = best if one.is_known else f"none of these (nearest: {best})"
        print(f"{visible(one.file)}: {answer}", flush=True)
    return num_failed


def print_as_json(predictions: Iterable[FilePrediction]) -> int:
    document: dict[str, list[Any]] = {"answers": [], "failures": []}
    for one in predictions:
        if one.error is not None:
            document["failures"].append({"file": str(one.file), "reason": one.error})
            continue
        top = [{"class": name, "probability": probability} for name, probability in one.top]
        answer = {"file": str(one.file), "is_known": one.is_known, "top": top}
        document["answers"].append(answer)
    console.print_json(document)
    return len(document["failures"])


def print_csv(predictions: Iterable[FilePrediction]) -> int:
    writer, num_failed = csv.writer(sys.stdout, lineterminator="\n"), 0
    writer.writerow(("file", "rank", "class", "probability"))
    for one in predictions:
        num_failed += one.error is not None
        if not one.is_known:
            writer.writerow((visible(one.file), 0, "none of these", ""))
        for rank, (name, probability) in enumerate(one.top, start=1):
            writer.writerow((visible(one.file), rank, visible(name), f"{probability:.6f}"))
    return num_failed
