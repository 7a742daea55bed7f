"""Attack what docs/reliability.md promises, and write what was tried into it.

    python benchmarks/attacks.py --scale 0.1 --seed 0 --write
    python benchmarks/attacks.py --minutes 30

The attacks are those of tests/attacks. With --minutes they are repeated with one seed after another
until the time is up. Exits with 1 if anything broke.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from tests.attacks import (
    crash_states,
    exported_models,
    failing_calls,
    forgetting,
    hostile_archives,
    hostile_files,
    kill_points,
    mutants,
    same_seeds,
)
from tests.attacks.tally import Tally
from tests.support.small_learner import add_pixels

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
Attack = Callable[[Path, int, int], Tally]


def controls(folder: Path, seed: int, count: int) -> Tally:
    return crash_states.controls(folder, seed)


# What is attacked, how, and how many tries a scale of 1 makes.
ATTACKS: list[tuple[str, Attack, int]] = [
    ("A: power cuts in `save`, `learn`, `forget`, `undo`, checkpoints", crash_states.attack, 5000),
    ("A: writers that leave out a sync and must be noticed", controls, 8),
    ("B: the n-th operation on files fails", failing_calls.attack, 400),
    ("C: mutated stores, without and with a right checksum", mutants.attack, 2000),
    ("D: SIGKILL at an operation of `learn`", kill_points.attack_from_outside, 100),
    ("E: damaged and lying images, special files", hostile_files.attack, 2000),
    ("F: exported models against torch, and what they tell", exported_models.attack, 200),
    ("G: hostile archives", hostile_archives.attack, 1000),
    ("I: forgotten classes", forgetting.attack, 100),
    ("J: the same seed twice", same_seeds.attack, 20),
]


def attack_all(seed: int, scale: float, tallies: list[Tally], until: float) -> None:
    for (what, attack, count), tally in zip(ATTACKS, tallies, strict=True):
        if time.monotonic() > until:
            return
        with tempfile.TemporaryDirectory() as folder:
            found = attack(Path(folder) / "attacked", seed, max(2, round(count * scale)))
        tally.join(found)
        print(
            f"seed {seed}: {what}: {found.tried:,} tried, {len(found.problems)} failed", flush=True
        )
        for problem in found.problems:
            print(f"  {problem}", flush=True)


def table(tallies: list[Tally], command: str) -> str:
    rows = [
        f"| {what} | {tally.tried:,} | {len(tally.problems):,} |"
        for (what, _, _), tally in zip(ATTACKS, tallies, strict=True)
    ]
    head = [f"`{command}`, commit {_commit()}:", "", "| attack | tried | failed |", "|---|---|---|"]
    return "\n".join([*head, *rows])


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
    parser.add_argument("--scale", type=float, default=1.0, help="times the usual number of tries")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="repeat with other seeds for so long")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", module=r"PIL\.")
    add_pixels()
    tallies = [Tally() for _ in ATTACKS]
    limit = float("inf") if given.minutes is None else time.monotonic() + 60 * given.minutes
    for seed in itertools.count(given.seed):
        attack_all(seed, given.scale, tallies, limit)
        if given.minutes is None or time.monotonic() > limit:
            break
    command = " ".join(["python benchmarks/attacks.py", *sys.argv[1:]])
    print(table(tallies, command))
    if given.write:
        text = PAGE.read_text()
        PAGE.write_text(write_between_markers(text, "attacks-output", table(tallies, command)))
    sys.exit(1 if any(tally.problems for tally in tallies) else 0)


if __name__ == "__main__":
    main()
