"""For those who do not write training loops: a classifier that takes new classes as they come."""

from __future__ import annotations

from remnant.learner.learner import Learner, Remembered
from remnant.learner.store_updates import forget_in_store, learn_into_store

__all__ = ["Learner", "Remembered", "forget_in_store", "learn_into_store"]
