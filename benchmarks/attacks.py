"""Attack what docs/reliability.md promises, and write what was tried into it.

    python benchmarks/attacks.py --letters A,C --scale 0.1 --seed 0 --results new.jsonl
    python benchmarks/attacks.py --minutes 30 --results new.jsonl
    python benchmarks/attacks.py --write

The attacks are those of tests/attacks. With --minutes they are repeated with one seed after another
until the time is up. With --results every attack adds a line to a file, so that a long attack can
be made of many short ones. The lines on the page are in tests/attacks/results.jsonl; --write adds
them up and writes the table. Exits with 1 if anything broke.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from tests.attacks import (
    crash_states,
    exported_models,
    failing_calls,
    forgetting,
    hostile_archives,
    hostile_files,
    hostile_requests,
    kill_points,
    mutants,
    run_kills,
    same_seeds,
)
from tests.attacks.tally import Tally
from tests.support.small_learner import add_pixels

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
RESULTS = ROOT / "tests" / "attacks" / "results.jsonl"


def controls(folder: Path, seed: int, count: int) -> Tally:
    return crash_states.controls(folder, seed)


@dataclass(frozen=True)
class Attack:
    """One row of the table."""

    letter: str
    what: str
    attack: Callable[[Path, int, int], Tally]
    target: int  # tries that it must stand, and that a scale of 1 makes
    limits: dict[str, float] = field(default_factory=dict)  # of what is measured


ATTACKS = (
    Attack(
        "A",
        "power cuts in `save`, `learn`, `forget`, `undo`, and in a run",
        crash_states.attack,
        10_000,
    ),
    Attack("A-controls", "writers that leave out a sync and must be noticed", controls, 8),
    Attack("B", "the n-th operation on files fails", failing_calls.attack, 400),
    Attack(
        "C",
        "mutated stores, half of them with a right checksum; at most 2 s and 64 MB beside the file",
        mutants.attack,
        10_000,
    ),
    Attack("D", "SIGKILL at an operation of `learn`", kill_points.attack_from_outside, 50),
    Attack(
        "D-runs",
        "SIGKILL in runs: step, selection, evaluation, restoring, end, file operation",
        run_kills.attack_from_outside,
        200,
    ),
    Attack(
        "E",
        "damaged, lying and huge images, special files; at most 2 s and 300 MB",
        hostile_files.attack,
        1000,
    ),
    Attack("F", "exported models against torch, and what they tell", exported_models.attack, 200),
    Attack("G", "hostile archives", hostile_archives.attack, 1000),
    Attack(
        "H",
        "hostile requests; server grows by 200 MB at most, honest p95 at most doubled",
        hostile_requests.attack,
        500,
        {"x p95": 2.0},
    ),
    Attack("I", "forgotten classes, with receipts", forgetting.attack, 100),
    Attack("J", "the same seed twice", same_seeds.attack, 20),
)


def attack_once(one: Attack, seed: int, scale: float) -> Tally:
    with tempfile.TemporaryDirectory() as folder:
        found = one.attack(Path(folder) / "attacked", seed, max(2, round(one.target * scale)))
    print(
        f"seed {seed}: {one.letter}: {one.what}: {found.tried:,} tried, "
        f"{len(found.problems)} failed{_worst(found)}",
        flush=True,
    )
    for problem in found.problems:
        print(f"  {problem}", flush=True)
    return found


# ---------------------------------------------------------------------------------------- the table


def table(tallies: dict[str, Tally], commands: list[str], commits: list[str]) -> str:
    rows = [
        f"| {one.letter.partition('-')[0]} | {one.what} | {tally.tried:,} | "
        f"{len(tally.problems):,} | {one.target:,} | {_verdict(one, tally)}{_worst(tally)} |"
        for one in ATTACKS
        for tally in [tallies[one.letter]]
    ]
    head = ["| | attack | tried | failed | target | met |", "|---|---|---|---|---|---|"]
    named = "; ".join(f"`{command}`" for command in commands)
    return "\n".join([f"{named}, commit {', '.join(commits)}:", "", *head, *rows])


def _verdict(one: Attack, tally: Tally) -> str:
    is_within = all(tally.worst.get(what, 0) <= most for what, most in one.limits.items())
    if tally.problems or not is_within:
        return "no"
    return "yes" if tally.tried >= one.target else "as far as tried"


def _worst(tally: Tally) -> str:
    shown = [f"{value:.1f} {what}" for what, value in sorted(tally.worst.items())]
    return f"; worst {', '.join(shown)}" if shown else ""


def add_result(path: Path, letter: str, seed: int, tally: Tally) -> None:
    line: dict[str, Any] = {
        "letter": letter,
        "seed": seed,
        "commit": _commit(),
        "tried": tally.tried,
        "problems": tally.problems,
        "worst": tally.worst,
    }
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def read_results(path: Path) -> tuple[dict[str, Tally], list[str]]:
    """The sum of all lines, and their commits; a seed that was tried again counts once."""
    newest = {}
    for text in path.read_text().splitlines():
        line = json.loads(text)
        newest[line["letter"], line["seed"]] = line
    found = {one.letter: Tally() for one in ATTACKS}
    for line in newest.values():
        found[line["letter"]].join(Tally(line["tried"], line["problems"], line["worst"]))
    return found, sorted({line["commit"] for line in newest.values()})


def kept_table() -> str:
    """The table of the page."""
    tallies, commits = read_results(RESULTS)
    command = (
        "python benchmarks/attacks.py --scale S --seed N --results tests/attacks/results.jsonl"
    )
    return table(tallies, [command, "--write"], commits)


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def write_between_markers(text: str, name: str, inner: str) -> str:
    pattern = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
    changed, count = re.subn(
        pattern, lambda found: f"{found[1]}{inner}\n{found[2]}", text, flags=re.DOTALL
    )
    assert count == 1, f"the page must have one pair of markers {name}"
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--letters", help="some of them, as A,C; all unless given")
    parser.add_argument("--scale", type=float, default=1.0, help="times the target of tries")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="repeat with other seeds for so long")
    parser.add_argument("--results", type=Path, help="a file to which lines are added")
    parser.add_argument("--write", action="store_true", help="write the table to the page")
    given = parser.parse_args()
    if given.write:
        PAGE.write_text(write_between_markers(PAGE.read_text(), "attacks-output", kept_table()))
        return
    warnings.filterwarnings("ignore", module=r"PIL\.")
    add_pixels()
    chosen = [
        one for one in ATTACKS if given.letters is None or one.letter in given.letters.split(",")
    ]
    tallies = {one.letter: Tally() for one in ATTACKS}
    limit = float("inf") if given.minutes is None else time.monotonic() + 60 * given.minutes
    for seed in itertools.count(given.seed):
        for one in chosen:
            if time.monotonic() > limit:
                break
            found = attack_once(one, seed, given.scale)
            tallies[one.letter].join(found)
            if given.results is not None:
                add_result(given.results, one.letter, seed, found)
        if given.minutes is None or time.monotonic() > limit:
            break
    command = " ".join(["python benchmarks/attacks.py", *sys.argv[1:]])
    print(table(tallies, [command], [_commit()]))
    sys.exit(1 if any(tally.problems for tally in tallies.values()) else 0)


if __name__ == "__main__":
    main()
