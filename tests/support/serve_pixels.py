"""A program for tests: `remnant serve` with the pixel method among the methods.

python serve_pixels.py STORE OPTIONS...; SECONDS_PER_STEP in the environment slows teaching down.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from remnant.cli import main
from remnant.phases import StepReport
from remnant.serving.jobs import Observer
from tests.support.small_learner import add_pixels


class SlowObserver(Observer):
    def on_step(self, report: StepReport) -> None:
        time.sleep(float(os.environ.get("SECONDS_PER_STEP", "0")))
        super().on_step(report)


if __name__ == "__main__":
    import remnant.serving.jobs

    add_pixels()
    remnant.serving.jobs.Observer = SlowObserver
    sys.argv = ["remnant", "serve", *sys.argv[1:]]
    main()
