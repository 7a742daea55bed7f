"""Jobs that start while other threads ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from remnant.serving.jobs import Job, Jobs


class Growing(dict[int, Any]):
    """Jobs to which another thread adds one whenever somebody begins to go through them."""

    def values(self) -> Any:
        return Values(self)


class Values:
    def __init__(self, jobs: Growing) -> None:
        self._jobs = jobs

    def __reversed__(self) -> Iterator[Any]:
        newest = reversed(dict.values(self._jobs))
        self._jobs[max(self._jobs, default=0) + 1] = None
        return newest


def test_a_job_that_starts_meanwhile_does_not_disturb_who_asks_for_the_running_one() -> None:
    jobs = Jobs()
    jobs._jobs = Growing()
    job: Job = jobs.start(["a"], 1, 0, lambda _: {})
    job.future.result(timeout=60)
    assert jobs.current is None
    assert jobs.find(job.id) is job
    jobs.close()
