"""Fuzz every parser that reads bytes from strangers, guided by the code that inputs reach.

    pip install atheris
    python benchmarks/fuzz.py --seconds 60 --seed 0 --results fuzz.jsonl [--targets store,memory]
    python benchmarks/fuzz.py --write fuzz.jsonl

Each target of tests/attacks/fuzz_targets.py runs in a process of its own for so many seconds. What
made one fail, take more than 2 s or too much memory is left in the corpus as `crash-*` or `oom-*`;
put it under tests/attacks/corpus/TARGET, where a test replays it. --write adds the results up and
writes them to docs/reliability.md. Exits with 1 if anything broke.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import re
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

_INPUT_SECONDS = 2.0  # of the processor
_PATIENCE = 600  # seconds after which a target that should have ended hangs
_MEMORY = 2048  # MB of the process, of which torch takes most
_MAX_BYTES = 1 << 16


def import_instrumented() -> None:
    """Import what is fuzzed, so that a fuzzer sees which code an input reaches; once for all."""
    import atheris

    sys.modules["numba"] = None  # pyright: ignore  # what it compiles cannot be followed
    with atheris.instrument_imports(include=["remnant", "PIL", "tarfile", "zipfile"]):
        from tests.attacks import fuzz_targets
        from tests.support.small_learner import add_pixels

    assert fuzz_targets.NAMES, "there is something to fuzz"
    warnings.simplefilter("ignore")
    logging.disable()
    add_pixels()


def fuzz_here(target: str, libfuzzer: list[str]) -> None:
    """Fuzz until libFuzzer ends the process."""
    import atheris

    from tests.attacks import fuzz_targets

    def mutate(content: bytes, max_bytes: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < 0.3:
            return atheris.Mutate(content, max_bytes)
        return fuzz_targets.mutate(target, content, chance)[:max_bytes]

    parse = fuzz_targets.target_of(target)

    def is_soon_parsed(content: bytes) -> bool:
        began = time.process_time()
        parse(content)
        return time.process_time() - began < _INPUT_SECONDS

    def parse_in_time(content: bytes) -> None:  # the first time something may be imported
        assert is_soon_parsed(content) or is_soon_parsed(content), "it takes too long"

    atheris.Setup([sys.argv[0], *libfuzzer], parse_in_time, custom_mutator=mutate)
    atheris.Fuzz()


def fuzz(target: str, seconds: int, seed: int, corpus: Path) -> tuple[int, list[str]]:
    """Inputs tried, and the files of those that broke something."""
    folder, found = corpus / target, corpus / f"found-{target}"
    for place in (folder, found):
        place.mkdir(parents=True, exist_ok=True)
    _write_seeds(target, folder)
    num_tried, broken = 0, []
    end = time.monotonic() + seconds
    while (left := round(end - time.monotonic())) > 0:  # libFuzzer stops at what it finds
        num_more, more = _fuzz_until_found(target, left, seed + len(broken), folder, found)
        num_tried += num_more
        broken += more
    return num_tried, broken


def _write_seeds(target: str, folder: Path) -> None:
    from tests.attacks import fuzz_targets

    kept = (fuzz_targets.CORPUS / target).glob("*")
    for number, content in enumerate(
        [*fuzz_targets.seeds(target), *(path.read_bytes() for path in sorted(kept))]
    ):
        (folder / f"seed-{number}").write_bytes(content)


def _fuzz_until_found(
    target: str, seconds: int, seed: int, folder: Path, found: Path
) -> tuple[int, list[str]]:
    libfuzzer = [
        f"-max_total_time={seconds}", f"-seed={seed + 1}",
        f"-timeout={10 * _PATIENCE}",  # its alarm, which ends Python, never comes
        f"-rss_limit_mb={_MEMORY}", f"-max_len={_MAX_BYTES}", f"-artifact_prefix={found}/",
        "-print_final_stats=1", "-len_control=0", str(folder),
    ]  # fmt: skip
    before, log = set(found.iterdir()), found.with_suffix(".log")
    process = os.fork()
    if process == 0:
        with log.open("wb") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
        fuzz_here(target, libfuzzer)
    code = _wait_for(process, seconds + _PATIENCE)
    text = log.read_text(errors="replace")
    executed = re.findall(r"number_of_executed_units: (\d+)|^#(\d+)", text, re.MULTILINE)
    num_tried = max((int(one or other) for one, other in executed), default=0)
    broken = [str(path) for path in sorted(set(found.iterdir()) - before)]
    if broken or code != 0:
        print(text[-4000:], file=sys.stderr)
        broken = broken or [f"{target}: exit {code}"]
    return num_tried, broken


def _wait_for(process: int, seconds: float) -> int:
    """Its exit code; it is killed when the time is up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def write_page(results: Path) -> None:
    from benchmarks.attacks import PAGE, write_between_markers

    lines = [json.loads(text) for text in results.read_text().splitlines()]
    rows = []
    for target in sorted({line["target"] for line in lines}):
        mine = [line for line in lines if line["target"] == target]
        sums = [sum(line[what] for line in mine) for what in ("seconds", "tried", "failed")]
        rows.append(f"| {target} | {sums[0]:,} | {sums[1]:,} | {sums[2]:,} |")
    head = ["| parser | seconds | inputs | broke something |", "|---|---|---|---|"]
    text = write_between_markers(PAGE.read_text(), "fuzz-output", "\n".join([*head, *rows]))
    PAGE.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", help="some of them, separated by commas")
    parser.add_argument("--corpus", type=Path, help="where inputs are kept for the next time")
    parser.add_argument("--results", type=Path, help="a file to which a line of JSON is added")
    parser.add_argument("--write", type=Path, help="write the sum of these results to the page")
    given = parser.parse_args()
    if given.write is not None:
        write_page(given.write)
        return
    import_instrumented()
    from tests.attacks import fuzz_targets

    targets = given.targets.split(",") if given.targets else list(fuzz_targets.NAMES)
    corpus = given.corpus or Path(tempfile.mkdtemp(prefix="remnant-fuzz-"))
    is_sound = True
    for target in targets:
        num_tried, broken = fuzz(target, given.seconds, given.seed, corpus)
        print(f"{target}: {num_tried:,} inputs, {len(broken)} broke something", *broken, flush=True)
        is_sound = is_sound and not broken
        if given.results is not None:
            line = {"letter": "fuzz", "target": target, "seconds": given.seconds,
                    "seed": given.seed, "tried": num_tried, "failed": len(broken)}  # fmt: skip
            with given.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
    sys.exit(0 if is_sound else 1)


if __name__ == "__main__":
    main()
