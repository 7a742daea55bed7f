"""A program for tests: teaches a store one class, slowly enough to be killed.

python teach_pixels.py STORE NAME SECONDS_PER_STEP
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from remnant.learner import learn_into_store
from remnant.phases import StepReport
from tests.support.small_learner import TINY, add_pixels, stripes


class Slow:
    def on_step(self, report: StepReport) -> None:
        time.sleep(float(sys.argv[3]))


if __name__ == "__main__":
    add_pixels()
    learn_into_store(Path(sys.argv[1]), *stripes(sys.argv[2]), watchers=(Slow(),), **TINY)
