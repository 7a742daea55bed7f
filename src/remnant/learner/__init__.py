"""A classifier for users who do not write training loops: it learns new classes as they come."""

from __future__ import annotations

from remnant.learner.learner import Learner
from remnant.learner.predictor import Exemplars
from remnant.learner.store import forget_in_store, learn_into_store, undo_in_store

__all__ = ["Exemplars", "Learner", "forget_in_store", "learn_into_store", "undo_in_store"]
