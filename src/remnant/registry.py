"""Named things of one kind: the package's own, in one explicit table, and those of plug-ins.

A plug-in is a package that names its things under an entry point such as `remnant.methods`; a
program may also add one by hand with `register`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from remnant.errors import InputError, nearest

ThingT = TypeVar("ThingT")
log = logging.getLogger(__name__)
# What somebody else's module can end in when it is imported, or when what it names is registered.
_LOADING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


class Registry(MutableMapping[str, ThingT], Generic[ThingT]):
    """A table by name. Entry points are read when a name is not in the package's own table.

    Args:
        kind: What the things are, for errors: "method".
        group: The entry point that plug-ins use: "remnant.methods".
        own: The package's own things.
        name_of: The name under which a thing is listed.
        check: Raises InputError for something that is not of this kind.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        own: Iterable[ThingT] = (),
        *,
        name_of: Callable[[ThingT], str],
        check: Callable[[ThingT], None] = lambda _: None,
    ) -> None:
        self.kind, self.group = kind, group
        self._name_of, self._check = name_of, check
        self._things = {name_of(thing): thing for thing in own}
        self._waiting: list[EntryPoint] | None = None  # None: not looked for yet
        self._broken: dict[str, str] = {}  # entry points that cannot be loaded, and why

    def register(self, thing: ThingT) -> ThingT:
        """Add a thing; also usable as a decorator.

        Raises:
            InputError: It is not of this kind, or another one has its name.
        """
        self._check(thing)
        name = self._name_of(thing)
        if name in self._things and not _is_same(self._things[name], thing):
            raise InputError(f"there is already a {self.kind} named {name!r}. Choose another name.")
        self._things[name] = thing
        return thing

    def refusal(self, thing: object) -> str:
        """Why a thing is not of this kind, as a sentence; empty if it is."""
        try:
            self._check(thing)  # pyright: ignore[reportArgumentType]
        except InputError as error:
            return str(error)
        return ""

    def find(self, name: object, setting: str) -> ThingT:
        """The thing of this name.

        Raises:
            InputError: There is none; the sentence names the `setting` that asked for it.
        """
        if isinstance(name, str) and name in self:
            return self[name]
        if isinstance(name, str) and name in self._broken:
            raise InputError(self._broken[name])
        raise InputError(
            f"{setting} must be one of {', '.join(self)}; got {name!r}." + nearest(str(name), self)
        )

    def __getitem__(self, name: str) -> ThingT:
        if name not in self._things:
            self._load_plugins()
        return self._things[name]

    def __setitem__(self, name: str, thing: ThingT) -> None:
        self._things[name] = thing

    def __delitem__(self, name: str) -> None:
        del self._things[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._things:
            self._load_plugins()
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(tuple(self._things))

    def __len__(self) -> int:
        self._load_plugins()
        return len(self._things)

    def _load_plugins(self) -> None:
        if self._waiting is None:
            self._waiting = list(entry_points(group=self.group))
        while self._waiting:
            point = self._waiting.pop()
            try:
                self.register(point.load())
            except _LOADING_ERRORS as error:
                self._broken[point.name] = (
                    f"the plug-in {point.value} ({self.group}) cannot be loaded: "
                    f"{str(error) or type(error).__name__}. Repair or uninstall its package."
                )
                log.warning(self._broken[point.name])


def _is_same(one: object, other: object) -> bool:
    """Equal, or a class that was defined again, as when a notebook cell is run twice."""
    if isinstance(one, type) and isinstance(other, type):
        return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
    return one == other
