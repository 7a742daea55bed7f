"""A run of a study as a process: how it is started, and the limits that all who start one keep.

It is a `remnant run`, or a `remnant resume` where the run was begun.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from remnant.config import RunConfig, load_config, override
from remnant.errors import InputError
from remnant.files import only_writer, write_json
from remnant.runs.run_folder import CONFIG
from remnant.studies.study_runs import StudyRun

POLL_SECONDS = 0.5
STOP_SECONDS = 20.0  # submitit leaves a job 30 seconds or more
TRIES = 3  # of a run that was killed; one that ends by itself with an error is not tried again
_PR_SET_PDEATHSIG = 1  # of Linux's prctl


def log_of(folder: Path) -> Path:
    """The file of all that the run in a folder prints."""
    return folder.parent / f"{folder.name}.log"


def start_run(
    run: StudyRun,
    folder: Path,
    threads: int,
    data_root: Path | None,
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Begin or continue a run; it ends with this process, and sees no Ctrl-C of its terminal."""
    arguments = command_of(run, folder, threads, data_root)
    with log_of(folder).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "remnant", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**environment, "OMP_NUM_THREADS": str(threads), "NO_COLOR": "1"},
            start_new_session=True,  # Ctrl-C reaches this process alone, which ends the others
            preexec_fn=end_with(os.getpid()),
        )


def end_with(parent: int) -> Callable[[], None] | None:
    """What a new process does first so that it is killed with its parent, however that ends.

    A study that is killed cannot end its runs itself, and the same command would start them again
    beside the first ones. None where the system cannot do it.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork, after which little is safe

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before
            os._exit(1)

    return end_with_parent


def command_of(run: StudyRun, folder: Path, threads: int, data_root: Path | None) -> list[str]:
    """What follows `remnant` to begin or to continue a run; begins by writing its config.

    A run that goes on keeps its threads, on which the last bits of its numbers depend; its data may
    lie elsewhere by now.
    """
    if (folder / CONFIG).exists():
        before = load_config(folder / CONFIG)
        after = _with_data_root(before, data_root)
        if after != before:
            # Not under a process that has the run: then `resume` says so.
            with suppress(InputError), only_writer(folder / CONFIG):
                write_json(folder / CONFIG, after.model_dump(mode="json"))
        return ["resume", str(folder)]
    config = folder.parent / f"{folder.name}.json"
    write_json(config, _for_this_machine(run.config, threads, data_root).model_dump(mode="json"))
    return ["run", str(config), "--out", str(folder)]


def _for_this_machine(config: RunConfig, threads: int, data_root: Path | None) -> RunConfig:
    return override(_with_data_root(config, data_root), {"training.threads": threads})


def _with_data_root(config: RunConfig, data_root: Path | None) -> RunConfig:
    root = {} if data_root is None else {"data.root": str(data_root.resolve())}
    return override(config, root)
