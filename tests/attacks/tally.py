"""What an attack has tried, and what broke."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from remnant.errors import InputError


@dataclass
class Tally:
    tried: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, problem: str | None) -> None:
        self.tried += 1
        if problem is not None:
            self.problems.append(problem)

    def join(self, other: Tally) -> None:
        self.tried += other.tried
        self.problems += other.problems

    @contextmanager
    def trying(self, what: str) -> Iterator[None]:
        """One try: a sentence for the user is fine, every other error is a problem."""
        try:
            yield
        except InputError:
            self.add(None)
        except AssertionError as error:
            self.add(f"{what}: {error}")
        except Exception as error:
            self.add(f"{what}: {type(error).__name__}: {error}")
        else:
            self.add(None)
