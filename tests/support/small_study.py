"""Runs of a study that take a second, notes of what becomes of them, and ended processes."""

from __future__ import annotations

from collections.abc import Sequence

from remnant.studies.fan_out import Failure, Job
from remnant.studies.study_runs import StudyRun
from tests.support.command_line import tiny_config


def tiny_run(name: str, **changes: object) -> StudyRun:
    return StudyRun("row", "column", 0, name, tiny_config(**changes))


class Told:
    """Notes what happens; a subclass may do something once a run has got somewhere."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.most_at_once = 0

    def started(self, job: Job) -> None:
        self.events.append(("started", job.run.name))

    def finished(self, job: Job, seconds: float) -> None:
        assert seconds > 0
        self.events.append(("finished", job.run.name))

    def failed(self, failure: Failure) -> None:
        self.events.append(("failed", failure.name))

    def waiting(self, jobs: Sequence[Job]) -> None:
        self.most_at_once = max(self.most_at_once, len(jobs))


def ended_at_once(given: list[dict[str, str]]) -> type:
    """In place of a process: it has ended, and its environment is noted."""

    class Ended:
        returncode = 0

        def __init__(self, *_: object, env: dict[str, str], **__: object) -> None:
            given.append(env)

        def poll(self) -> int:
            return self.returncode

    return Ended
