"""What a store holds, in figures and in pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from remnant.learner.learner import Learner, Remembered
from remnant.learner.store import work_folder
from remnant.reports import write_store_page

_SHOWN = 600  # exemplars on a page, of all classes together, so that it stays a few megabytes
_SHOWN_OF_A_CLASS = (4, 24)  # at least, at most


def store_facts(learner: Learner, path: Path) -> dict[str, Any]:
    """The figures of a store as plain values.

    Args:
        learner: As loaded from the store.
        path: The store.
    """
    memory = learner.memory_
    return {
        "store": str(path),
        "file_bytes": path.stat().st_size,
        "method": learner.settings_.method.name,
        "image_size": learner.image_size_,
        "parameters": sum(part.numel() for part in learner.method_.parameters()),
        "classes": _class_rows(learner),
        "memory": None
        if memory is None
        else {
            "budget": memory.config.budget,
            "budget_bytes": memory.budget_bytes,
            "used_bytes": memory.nbytes,
            "codec": memory.codec.config.name,
            "exemplars": sum(memory.counts),
        },
        "history": learner.history_,
        "is_update_unfinished": any(work_folder(path).glob("*.safetensors")),
        "settings": learner.settings_.model_dump(mode="json"),
    }


def _class_rows(learner: Learner) -> list[dict[str, Any]]:
    rows = []
    for label, name in enumerate(learner.classes_.tolist()):
        sizes: list[int] = []
        if learner.memory_ is not None and label in learner.memory_.labels:
            sizes = learner.memory_.exemplar_bytes(label)
        rows.append({"name": name, "exemplars": len(sizes), "bytes": sum(sizes)})
    return rows


def write_gallery(learner: Learner, path: Path, out: Path) -> Path:
    """Write a page of what a store remembers: its exemplars as stored and as completed."""
    facts = store_facts(learner, path)
    least, most = _SHOWN_OF_A_CLASS
    limit = min(most, max(least, _SHOWN // len(facts["classes"])))
    pictures = []
    for row in facts["classes"]:
        kept = learner.remembered(row["name"]) if row["exemplars"] else None
        pictures.append([] if kept is None else _pictures(kept, limit))
    return write_store_page(facts, pictures, out)


def _pictures(kept: Remembered, limit: int) -> list[tuple[np.ndarray, np.ndarray | None, int]]:
    """The first exemplars: stored as RGBA, completed unless it is the same, and bytes."""
    shown = []
    for index in range(min(limit, len(kept.stored))):
        stored, completed = kept.picture(index), None
        if kept.is_known is not None:
            completed = kept.completed[index]
        shown.append((stored, completed, kept.num_bytes[index]))
    return shown
