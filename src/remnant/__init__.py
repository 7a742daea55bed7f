"""remnant: class-incremental image learning with a replay memory counted in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from remnant._version import __version__
from remnant.errors import InputError

if TYPE_CHECKING:
    from remnant.learner import Learner as Learner
    from remnant.phases import RunWatcher as RunWatcher
    from remnant.registry import Registry
    from remnant.runs.python_api import run as run

__all__ = ["InputError", "Learner", "RunWatcher", "__version__", "register", "run"]

ThingT = TypeVar("ThingT")


def __getattr__(name: str) -> Any:
    # torch takes seconds to import, and `remnant --help` must not wait for it.
    if name == "run":
        from remnant.runs.python_api import run

        return run
    if name == "Learner":
        from remnant.learner import Learner

        return Learner
    if name == "RunWatcher":
        from remnant.phases import RunWatcher

        return RunWatcher
    raise AttributeError(f"module 'remnant' has no attribute {name!r}")


def register(thing: ThingT) -> ThingT:
    """Add a method, codec, data set or preset to those that remnant knows; also a decorator.

    It is then known by its name in this process: in configs, in `run` and to `Learner`. A package
    that names it as an entry point (`remnant.methods`, `remnant.codecs`, `remnant.datasets` or
    `remnant.recipes`) makes it known to every process, and to the command line.

    Raises:
        InputError: It is none of these, or its name is taken.
    """
    from remnant.data import DATASETS
    from remnant.memory import CODECS
    from remnant.methods import METHODS
    from remnant.recipes import PRESETS

    tables = cast("tuple[Registry[Any], ...]", (METHODS, CODECS, DATASETS, PRESETS))
    refusals = [table.refusal(thing) for table in tables]
    for table, refusal in zip(tables, refusals, strict=True):
        if not refusal:
            return table.register(thing)
    kinds = " or ".join(f"a {table.kind}" for table in tables)
    raise InputError(f"remnant.register takes {kinds}; got {thing!r:.80}.")


def __dir__() -> list[str]:
    return __all__
