"""remnant: class-incremental image learning with a replay memory counted in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from remnant._version import __version__
from remnant.errors import InputError

if TYPE_CHECKING:
    from remnant.learner import Learner as Learner
    from remnant.runs.python_api import run as run

__all__ = ["InputError", "Learner", "__version__", "run"]


def __getattr__(name: str) -> Any:
    # torch takes seconds to import, and `remnant --help` must not wait for it.
    if name == "run":
        from remnant.runs.python_api import run

        return run
    if name == "Learner":
        from remnant.learner import Learner

        return Learner
    raise AttributeError(f"module 'remnant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
