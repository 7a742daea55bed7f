"""remnant: class-incremental image learning with a replay memory counted in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from remnant.api import run as run
    from remnant.learner import Learner as Learner

__all__ = ["Learner", "__version__", "run"]


def __getattr__(name: str) -> Any:
    # torch takes seconds to import, and `remnant --help` must not wait for it.
    if name == "run":
        from remnant.api import run

        return run
    if name == "Learner":
        from remnant.learner import Learner

        return Learner
    raise AttributeError(f"module 'remnant' has no attribute {name!r}")
