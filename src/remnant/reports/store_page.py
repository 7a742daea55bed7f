"""A learner's store -> one page: its figures, its updates, and every class with its exemplars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from remnant.files import write_text
from remnant.reports.embed import MAX_SIDE, image_address
from remnant.reports.page import render_page

# As stored (RGBA, transparent where nothing is), as completed unless that is the same, and bytes.
Exemplar = tuple[np.ndarray, np.ndarray | None, int]


_LARGEST_CONFUSION = 20  # classes; a larger table cannot be read


def write_store_page(
    facts: dict[str, Any],
    exemplars: Sequence[Sequence[Exemplar]],
    out: Path,
    scored: dict[str, Any] | None = None,
) -> Path:
    """Write the page of a store.

    Args:
        facts: From `learner.summary.store_facts`.
        exemplars: For each class of `facts`, those to show, best first.
        out: The file to write.
        scored: How the store does on a test folder, as `learner.summary` finds it.
    """
    if scored is not None:
        shown = [one | {"picture": image_address(one["picture"])} for one in scored["shown"]]
        scored = scored | {"shown": shown}
    classes = [
        row | {"number": number, "shown": [_addresses(one) for one in shown]}
        for number, (row, shown) in enumerate(zip(facts["classes"], exemplars, strict=True))
    ]
    accuracies = [one["accuracy"] for one in facts["history"] if one.get("accuracy") is not None]
    page = render_page(
        "store.html.j2",
        facts=facts,
        name=Path(facts["store"]).name,
        classes=classes,
        accuracy=accuracies[-1] if accuracies else None,
        scored=scored,
        most_confused=_LARGEST_CONFUSION,
        is_partial=any(one[1] is not None for shown in exemplars for one in shown),
        is_shrunk=facts["image_size"] > MAX_SIDE,
    )
    write_text(out, page)
    return out


def _addresses(exemplar: Exemplar) -> dict[str, Any]:
    stored, completed, num_bytes = exemplar
    return {
        "stored": image_address(stored),
        "completed": None if completed is None else image_address(completed),
        "bytes": num_bytes,
    }
