"""What an attack has tried, what broke, and what the costliest try took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from remnant.errors import InputError

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Tally:
    tried: int = 0
    problems: list[str] = field(default_factory=list)
    worst: dict[str, float] = field(default_factory=dict)  # by what is measured

    def add(self, problem: str | None) -> None:
        self.tried += 1
        if problem is not None:
            self.problems.append(problem)

    def note(self, what: str, value: float) -> None:
        self.worst[what] = max(self.worst.get(what, value), value)

    def join(self, other: Tally) -> None:
        self.tried += other.tried
        self.problems += other.problems
        for what, value in other.worst.items():
            self.note(what, value)

    @contextmanager
    def trying(
        self, what: str, *, seconds: float | None = None, megabytes: float | None = None
    ) -> Iterator[None]:
        """One try: a sentence for the user is fine, every other error is a problem.

        Args:
            seconds: Of the processor, that it may take.
            megabytes: That it may take more than the process had before.
        """
        problem = None
        cost = Cost()
        try:
            yield
        except InputError:
            pass
        except AssertionError as error:
            problem = f"{what}: {error}"
        except Exception as error:
            problem = f"{what}: {type(error).__name__}: {error}"
        if seconds is not None:
            self.note("s", cost.seconds)
            if cost.seconds > seconds:
                problem = problem or f"{what}: it takes {cost.seconds:.1f} s"
        if megabytes is not None:
            self.note("MB", cost.megabytes)
            if cost.megabytes > megabytes:
                problem = problem or f"{what}: it takes {cost.megabytes:.0f} MB"
        self.add(problem)


class Cost:
    """What this process takes from now on; memory as far as Linux tells it, else none."""

    def __init__(self) -> None:
        with suppress(OSError):
            _RESET.write_text("5")  # forgets the peak so far
        self._before = _memory("VmRSS")
        self._began = time.process_time()

    @property
    def seconds(self) -> float:
        return time.process_time() - self._began

    @property
    def megabytes(self) -> float:
        return max(0.0, _memory("VmHWM") - self._before)


def _memory(what: str, status: Path = _STATUS) -> float:
    """MB."""
    with suppress(OSError):
        for line in status.read_text().splitlines():
            if line.startswith(what):
                return int(line.split()[1]) / 1024
    return 0.0


def resident_megabytes(process: int) -> float:
    """Of another process, now."""
    return _memory("VmRSS", Path(f"/proc/{process}/status"))
