"""SIGKILL a run at random moments and resume it: is the end bit-identical to an unbroken run?

    python benchmarks/kills.py --kills 20 --recipe digits-er --seed 0

Every start of the program (the first and every resume) gets a random moment to die at. When a run
reaches its end before all kills are spent, it is compared and another one begins.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remnant.training.checkpoints import Checkpoints

_TIMES = {"images_per_second", "seconds", "train_seconds", "train_images_per_second"}
_TIMES |= {"seconds_per_task"}


@dataclass(frozen=True)
class Kill:
    """One death: in which run, after how long, and how far the run had come."""

    run: int
    seconds: float
    stage: str


@dataclass(frozen=True)
class Outcome:
    kills: list[Kill]
    num_runs: int
    differences: list[str]  # between finished runs and the unbroken one; empty: bit-identical


def kill_and_resume(
    start: Sequence[str],
    folder: Path,
    num_kills: int,
    seed: int,
    tell: Callable[[Kill], None] = lambda _: None,
) -> Outcome:
    """Run `remnant run *start` unbroken, then again and again with kills, in `folder`."""
    reference = folder / "unbroken"
    began = time.monotonic()
    finish(["run", *start, "--out", str(reference)])
    longest = 0.8 * (time.monotonic() - began)  # so that most starts die
    chance = random.Random(seed)
    kills: list[Kill] = []
    found: list[str] = []
    num_runs = 0
    while len(kills) < num_kills:
        target = folder / f"broken-{num_runs}"
        while not is_finished(target):
            seconds = chance.uniform(0, longest)
            if len(kills) == num_kills:
                finish(_command(start, target))
            elif kill_after(_command(start, target), seconds):
                kills.append(Kill(num_runs, seconds, stage(target)))
                tell(kills[-1])
        found += [f"run {num_runs}: {text}" for text in differences(reference, target)]
        num_runs += 1
    return Outcome(kills, num_runs, found)


def _command(start: Sequence[str], target: Path) -> list[str]:
    if (target / "config.json").exists():
        return ["resume", str(target)]
    return ["run", *start, "--out", str(target)]


def finish(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "remnant", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} ended with {ended.returncode}: {ended.stderr}")


def kill_after(arguments: list[str], seconds: float) -> bool:
    """Whether the process was killed; False: it came to its end first."""
    command = [sys.executable, "-m", "remnant", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            _, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return True
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}: {errors!r}")
    return False


def is_finished(folder: Path) -> bool:
    path = folder / "result.json"
    return path.exists() and json.loads(path.read_text())["finished"]


def stage(folder: Path) -> str:
    """How far a run has come, by its newest checkpoint."""
    if not (folder / "config.json").exists():
        return "before config.json"
    if is_finished(folder):
        return "finished, before the page"
    points = Checkpoints(folder / "checkpoint").points()
    if not points:
        return "before the first checkpoint"
    return points[-1].file_name.removesuffix(".safetensors")


# -------------------------------------------------------------------------------------- comparison


def differences(expected: Path, found: Path) -> list[str]:
    """What two finished run folders disagree on, times apart; empty: bit-identical."""
    problems = []
    last = Checkpoints(expected / "checkpoint").points()[-1]
    arrays, metadata = Checkpoints(expected / "checkpoint").load(last)
    others, other = Checkpoints(found / "checkpoint").load(last)
    if set(arrays) != set(others) or metadata.get("memory") != other.get("memory"):
        problems.append("the last checkpoints hold different things")
    problems += [
        f"checkpoint {name}"
        for name in sorted(set(arrays) & set(others))
        if arrays[name].tobytes() != others[name].tobytes()
    ]
    for path in sorted(expected.rglob("*.safetensors")):
        name = path.relative_to(expected)
        if name.parts[0] == "checkpoint":
            continue
        if not (found / name).exists() or path.read_bytes() != (found / name).read_bytes():
            problems.append(str(name))
    for name in ("result.json", "events.jsonl"):
        if _without_times(expected / name) != _without_times(found / name):
            problems.append(name)
    left = [path.name for path in found.rglob(".*.tmp")]
    return problems + [f"left behind: {name}" for name in left]


def _without_times(path: Path) -> list[Any]:
    texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    return [
        {key: value for key, value in json.loads(text).items() if key not in _TIMES}
        for text in texts
    ]


def _print_row(kill: Kill) -> None:
    print(f"{kill.run:3d}  {kill.seconds:7.2f}  {kill.stage}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--recipe", default="digits-er")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], help="as for remnant run")
    arguments = parser.parse_args()
    settings = [part for text in arguments.set for part in ("--set", text)]
    start = [arguments.recipe, "--seed", str(arguments.seed), *settings]
    print("run  after s  newest on disk", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        outcome = kill_and_resume(start, Path(folder), arguments.kills, arguments.seed, _print_row)
    verdict = "all bit-identical to the unbroken run"
    if outcome.differences:
        verdict = "DIFFERENT: " + "; ".join(outcome.differences)
    print(f"{len(outcome.kills)} kills over {outcome.num_runs} runs: {verdict}")
    sys.exit(1 if outcome.differences else 0)


if __name__ == "__main__":
    main()
