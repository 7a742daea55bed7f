"""A program for tests: runs or resumes the pixel method, in one process or in two.

    python pixel_run.py run CONFIG FOLDER
    python pixel_run.py resume FOLDER

Every process appends the ids of its rows to ids-RANK.jsonl beside the folder. `PIXELS_BREAK_AT`
makes the second half of the rows of that step infinite, which with two processes one alone sees;
`PIXELS_SLEEP` makes every step take that many seconds; the process `PIXELS_REFUSE_IN` cannot
read an image; from its first step on, the process `PIXELS_FULL_IN` cannot write long files.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[2]))

from remnant.config import load_config
from remnant.errors import InputError
from remnant.methods import METHODS
from remnant.phases import Batch, Terms
from remnant.runs.experiment import resume, run
from tests.support.pixel_method import Pixels

_FOLDER = Path(sys.argv[-1])
_RANK = next(
    (os.environ[name] for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK") if name in os.environ), "0"
)


class NotedPixels(Pixels):
    def loss(self, batch: Batch) -> Terms:
        rank = _RANK
        line = {"rank": int(rank), "step": batch.step, "ids": batch.ids.tolist()}
        with (_FOLDER.parent / f"ids-{rank}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        time.sleep(float(os.environ.get("PIXELS_SLEEP", "0")))
        if os.environ.get("PIXELS_FULL_IN") == rank:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        terms = super().loss(batch)
        if os.environ.get("PIXELS_REFUSE_IN") == rank:
            raise InputError(f"broken.png cannot be read in process {rank}.")
        breaks = batch.step == int(os.environ.get("PIXELS_BREAK_AT", "-1"))
        if breaks and rank == str(int(os.environ.get("WORLD_SIZE", "1")) - 1):
            terms["classify"] = terms["classify"] * torch.inf
        return terms


def main() -> None:
    METHODS["pixels"] = NotedPixels
    try:
        if sys.argv[1] == "run":
            run(load_config(Path(sys.argv[2])), _FOLDER)
        else:
            resume(_FOLDER)
    except (InputError, OSError) as error:
        print(f"remnant: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
