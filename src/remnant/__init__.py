"""remnant: class-incremental image learning with a replay memory counted in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from remnant.api import run as run

__all__ = ["__version__", "run"]


def __getattr__(name: str) -> Any:
    # torch takes seconds to import, and `remnant --help` must not wait for it.
    if name == "run":
        from remnant.api import run

        return run
    raise AttributeError(f"module 'remnant' has no attribute {name!r}")
