"""A classifier for users who do not write training loops: it learns new classes as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from remnant.learner.predictor import Exemplars
from remnant.learner.store import forget_in_store, learn_into_store, undo_in_store

if TYPE_CHECKING:
    from remnant.learner.learner import Learner as Learner

__all__ = ["Exemplars", "Learner", "forget_in_store", "learn_into_store", "undo_in_store"]


def __getattr__(name: str) -> Any:
    # scikit-learn takes a second to import, and commands on stores must not wait for it.
    if name == "Learner":
        from remnant.learner.learner import Learner

        return Learner
    raise AttributeError(f"module 'remnant.learner' has no attribute {name!r}")
