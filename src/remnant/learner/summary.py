"""The content of a store, as figures and as a page of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from remnant.data.decode import decode_file
from remnant.learner.learner_state import LearnerState
from remnant.learner.predictor import Exemplars, Predictor
from remnant.learner.scoring import ScoredFolder
from remnant.learner.work_folder import work_folder
from remnant.reports import write_store_page

_SHOWN = 600  # exemplars on a page, of all classes together, so that it stays a few megabytes
_SHOWN_MISTAKES, _MISTAKE_SIDE = 24, 128
_SHOWN_PER_CLASS = (4, 24)  # at least, at most


def store_facts(state: LearnerState, path: Path) -> dict[str, Any]:
    """The figures of the store at `path`, which holds `state`, as plain values."""
    memory, config = state.method.memory, state.config
    facts = None
    if memory is not None:
        facts = {
            "budget": memory.config.budget,
            "budget_bytes": memory.budget_bytes,
            "used_bytes": memory.nbytes,
            "codec": memory.codec.config.name,
            "exemplars": state.num_exemplars,
        }
    return {
        "store": str(path),
        "file_bytes": path.stat().st_size,
        "method": config.method.name,
        "image_size": config.image_size,
        "parameters": sum(part.numel() for part in state.method.parameters()),
        "classes": _class_rows(state),
        "memory": facts,
        "history": list(state.history),
        "is_update_unfinished": any(work_folder(path).glob("*.safetensors")),
        "settings": config.model_dump(mode="json"),
    }


def _class_rows(state: LearnerState) -> list[dict[str, Any]]:
    memory, rows = state.method.memory, []
    for label, name in enumerate(state.classes):
        sizes: list[int] = []
        if memory is not None and label in memory.labels:
            sizes = memory.exemplar_bytes(label)
        rows.append({"name": name, "exemplars": len(sizes), "bytes": sum(sizes)})
    return rows


def write_gallery(
    state: LearnerState, path: Path, out: Path, scored: ScoredFolder | None = None
) -> Path:
    """Write a page with the figures of a store and its exemplars, as stored and as completed.

    With `scored`, also with the confusion matrix and the most confident mistakes.
    """
    facts, predictor = store_facts(state, path), Predictor(state)
    least, most = _SHOWN_PER_CLASS
    limit = min(most, max(least, _SHOWN // len(facts["classes"])))
    pictures = []
    for row in facts["classes"]:
        kept = predictor.exemplars(row["name"]) if row["exemplars"] else None
        pictures.append([] if kept is None else _pictures(kept, limit))
    shown = None if scored is None else _shown(state, scored)
    return write_store_page(facts, pictures, out, shown)


def _shown(state: LearnerState, found: ScoredFolder) -> dict[str, Any]:
    """What the page shows of a test folder: figures, and the surest mistakes as pictures."""
    mistakes = [
        {
            "picture": decode_file(Path(file), min(state.config.image_size, _MISTAKE_SIDE)),
            "class": true,
            "predicted": taken,
            "probability": share,
        }
        for file, true, taken, share in found.files[:_SHOWN_MISTAKES]
    ]
    return found.facts() | {"rows": found.class_rows(), "shown": mistakes}


def _pictures(kept: Exemplars, limit: int) -> list[tuple[np.ndarray, np.ndarray | None, int]]:
    """The first exemplars: stored as RGBA, completed if that differs, and bytes."""
    return [
        (
            kept.picture(rank),
            None if kept.is_known is None else kept.completed[rank],
            kept.num_bytes[rank],
        )
        for rank in range(min(limit, len(kept.stored)))
    ]
