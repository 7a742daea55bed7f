"""Which job of a cluster has which run, so that no run is given to two.

OUT/jobs/jobs.json holds it for all studies in OUT, since they share runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from remnant.errors import InputError, how_to_install
from remnant.files import make_folder, only_writer, read_json_object, write_json
from remnant.studies.study_runs import StudyRun

ClusterKind = Literal["slurm", "local"]
JOBS_FILE = "jobs.json"
_LOCK = "lock"
# Of Slurm. In any other state, an unknown one too, a job may still come to its run.
_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "REVOKED", "TIMEOUT",
}  # fmt: skip


class JobRecord(BaseModel):
    """The job that was last given a run."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    cluster: ClusterKind
    id: str


class JobBook(BaseModel):
    """What jobs.json holds."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    jobs: dict[str, JobRecord] = {}  # by name of the run
    format: Literal[1] = 1

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises InputError where the file is damaged."""
        path = folder / JOBS_FILE
        if not path.exists():
            return cls()
        try:
            return cls.model_validate(read_json_object(path, "the jobs of a cluster"))
        except ValidationError:
            raise InputError(
                f"{path} must hold the jobs of a cluster; it is damaged. Restore it from a copy, "
                "or delete it once none of its jobs is queued or running."
            ) from None

    def write_with(self, folder: Path, added: Mapping[str, JobRecord]) -> JobBook:
        book = JobBook(jobs={**self.jobs, **added})
        write_json(folder / JOBS_FILE, book.model_dump(mode="json"))
        return book

    def states(self, folder: Path, runs: Sequence[StudyRun]) -> dict[str, str]:
        """The states of jobs which may still carry out one of `runs`, by its name."""
        known = {run.name: self.jobs[run.name] for run in runs if run.name in self.jobs}
        submitit = load_submitit()
        # All are made before the first is asked, so that Slurm is asked once.
        asked = {
            name: submitit.SlurmJob(folder=folder, job_id=record.id)
            for name, record in known.items()
            if record.cluster == "slurm"
        }
        states = {name: job.state for name, job in asked.items()}
        states |= {
            name: "RUNNING" if _is_alive(folder, record.id) else "FAILED"
            for name, record in known.items()
            if record.cluster == "local"
        }
        return {name: state for name, state in states.items() if not _has_ended(state)}


def _has_ended(state: str) -> bool:
    return state.split()[0].rstrip("+") in _ENDED  # "CANCELLED by 1000"


def _is_alive(folder: Path, process_id: str) -> bool:
    """Whether a local job outlived the command that started it, which submitit cannot tell."""
    try:
        return os.fsencode(folder) in Path(f"/proc/{process_id}/cmdline").read_bytes()
    except OSError:
        return False


@contextmanager
def only_submitter(folder: Path) -> Iterator[None]:
    """Two commands at once would give the same runs to two jobs."""
    lock = folder / _LOCK
    make_folder(folder)
    lock.touch()
    with only_writer(lock):
        yield


def load_submitit() -> Any:
    """Raises InputError where submitit is not installed."""
    try:
        import submitit
    except ModuleNotFoundError:
        raise InputError(
            f"--cluster needs the package submitit. {how_to_install('cluster')}"
        ) from None
    return submitit
