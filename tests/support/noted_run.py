"""A program for tests: a run in which every process notes its network after each task.

    python noted_run.py CONFIG FOLDER

The digests go to state-RANK.txt beside the folder, a line per task.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from remnant.config import load_config
from remnant.images import Task
from remnant.methods import METHODS, Method
from remnant.phases import Reader
from remnant.runs.experiment import run


def digest(method: Method) -> str:
    """Of every parameter and buffer, by name."""
    found = hashlib.sha256()
    for name, tensor in method.state_dict().items():
        found.update(name.encode() + tensor.cpu().numpy().tobytes())
    return found.hexdigest()


def main() -> None:
    config, folder = load_config(Path(sys.argv[1])), Path(sys.argv[2])
    kind = METHODS[config.method.name]
    end_task = kind.end_task

    def noting(self: Method, task: Task, reader: Reader) -> None:
        end_task(self, task, reader)
        with (folder.parent / f"state-{os.environ.get('LOCAL_RANK', '0')}.txt").open("a") as file:
            file.write(digest(self) + "\n")

    kind.end_task = noting
    run(config, folder)


if __name__ == "__main__":
    main()
