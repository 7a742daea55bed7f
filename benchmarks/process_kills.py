"""SIGKILL one process of several at random moments: do the others end, and does the run resume?

    python -m benchmarks.process_kills --kills 20 --machines 2 --tasks 1
    python -m benchmarks.process_kills --kills 20 --machines 2 --tasks 2 --recipe digits-bimae

Machines are network namespaces with addresses of their own, joined by a bridge (needs root and
iproute2), or addresses of the loopback interface without them. Processes are started as srun starts
tasks, but nobody watches over them: they must notice by themselves that one is gone. (Before they
have met they cannot; `srun --kill-on-bad-exit` and torchrun end them then. So kills come later.)
After every kill it is noted how long the others took to end, and whether they said so in one
sentence, without a traceback; then the run goes on with all processes. Finished runs are compared
with one that was never killed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.kills import differences, is_finished, stage
from remnant.files import PARTIAL

# Small, so that starting takes longer than training, with enough checkpoints to go on from.
SETTINGS = {
    "data.images_per_class": 40, "method.first.epochs": 3, "stream.num_tasks": 2,
    "training.threads": 1, "training.accelerator": "cpu", "training.checkpoint_every_steps": 3,
    "training.log_every_steps": 1,
}  # fmt: skip
_PATIENCE = 120.0  # seconds after which processes that do not end count as hanging
_SENTENCE = "remnant: another process of this run has ended"


@dataclass(frozen=True)
class Machine:
    """Where processes run: what comes before their command, and their network."""

    prefix: tuple[str, ...]
    interface: str


@dataclass(frozen=True)
class Kill:
    """One process that was killed, and what the others did."""

    rank: int
    stage: str  # how far the run had come
    seconds: float  # until all others had ended
    sentences: int
    has_traceback: bool

    @property
    def is_clean(self) -> bool:
        """Ended in time with one sentence, or with none where the run was already finished."""
        is_told = self.sentences == 1 or (self.sentences == 0 and "finished" in self.stage)
        return is_told and not self.has_traceback and self.seconds < _PATIENCE


@contextmanager
def machines(count: int) -> Iterator[tuple[list[Machine], str]]:
    """So many machines, and the address of the first."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        yield [Machine((), "lo")] * count, "127.0.0.1"
        return
    names = [f"remnant{os.getpid()}-{index}" for index in range(count)]
    bridge = f"rb{os.getpid()}"
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("link", "set", bridge, "up")
        for index, name in enumerate(names):
            outside = f"rv{os.getpid()}-{index}"
            _ip("netns", "add", name)
            _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", outside, "master", bridge, "up")
            _ip("-n", name, "addr", "add", f"10.77.0.{index + 1}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield [Machine(("ip", "netns", "exec", name), "eth0") for name in names], "10.77.0.1"
    finally:
        for name in names:
            _ip("netns", "del", name, check=False)
        _ip("link", "del", bridge, check=False)


def _ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True)


class Job:
    """The processes of one start of a run, each with a file of what it printed."""

    def __init__(
        self,
        where: Sequence[Machine],
        address: str,
        tasks: int,
        arguments: Sequence[str],
        logs: Path,
    ) -> None:
        common = {
            "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "17", "SLURM_JOB_NAME": "train",
            "SLURM_NTASKS": str(len(where) * tasks), "SLURM_NTASKS_PER_NODE": str(tasks),
            "SLURM_NNODES": str(len(where)), "MASTER_ADDR": address,
            "MASTER_PORT": str(_free_port()), "OMP_NUM_THREADS": "1", "NO_COLOR": "1",
        }  # fmt: skip
        self.processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path] = []
        for node, machine in enumerate(where):
            for task in range(tasks):
                rank = str(node * tasks + task)
                own = {"SLURM_PROCID": rank, "SLURM_NODEID": str(node), "SLURM_LOCALID": str(task)}
                self._logs.append(logs / f"{rank}.log")
                with self._logs[-1].open("wb") as log:
                    command = [*machine.prefix, sys.executable, "-m", "remnant", *arguments]
                    self.processes.append(
                        subprocess.Popen(
                            command,
                            stdin=subprocess.DEVNULL,
                            stdout=log,
                            stderr=subprocess.STDOUT,
                            env={**os.environ, **common, **own,
                                 "GLOO_SOCKET_IFNAME": machine.interface},
                        )
                    )  # fmt: skip

    def wait(self, seconds: float) -> bool:
        """Whether all processes end within so many seconds."""
        deadline = time.monotonic() + seconds
        while any(process.poll() is None for process in self.processes):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def kill(self, rank: int, place: Path) -> Kill:
        """Kill one process; what the others do then."""
        reached, began = stage(place), time.monotonic()
        self.processes[rank].kill()
        self.wait(_PATIENCE)
        seconds = time.monotonic() - began
        self.end()
        others = "".join(
            log.read_text(errors="replace") for index, log in enumerate(self._logs) if index != rank
        )
        return Kill(rank, reached, seconds, others.count(_SENTENCE), "Traceback" in others)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def printed(self) -> str:
        return "".join(log.read_text(errors="replace") for log in self._logs)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("", 0))
        return found.getsockname()[1]


def kill_and_resume(
    start: Sequence[str], folder: Path, count: int, num_machines: int, tasks: int, seed: int
) -> tuple[list[Kill], list[str]]:
    """So many kills over as many runs as it takes; what was seen, and differences at their ends."""
    rng, kills, found, number = random.Random(seed), [], [], 0
    with machines(num_machines) as (where, address):

        def job(target: Path) -> Job:
            resumed = ["resume", str(target)]
            new = ["run", *start, "--out", str(target)]
            arguments = resumed if (target / "config.json").exists() else new
            return Job(where, address, tasks, arguments, folder)

        def finish(target: Path) -> float:
            """Seconds from the first event to the end."""
            running = met(target)
            began = time.monotonic()
            if not running.wait(10 * _PATIENCE) or not is_finished(target):
                running.end()
                raise SystemExit(f"the run did not end: {running.printed()}")
            return time.monotonic() - began

        def met(target: Path) -> Job:
            """Processes that have begun to work together, or have ended."""
            before, running = _size(target / "events.jsonl"), job(target)
            while _size(target / "events.jsonl") == before and not running.wait(0.05):
                pass
            return running

        longest = finish(folder / "unbroken")
        while len(kills) < count:
            target = folder / f"broken-{number}"
            while not is_finished(target):
                if len(kills) == count:
                    finish(target)
                    break
                running = met(target)
                if not running.wait(rng.random() * longest):
                    kills.append(running.kill(rng.randrange(len(running.processes)), target))
                    print(kills[-1], flush=True)
            # Whoever told of a lost process left a mark, which the next start would remove.
            (target / f".told{PARTIAL}").unlink(missing_ok=True)
            problems = differences(folder / "unbroken", target)
            found += [f"run {number}: {text}" for text in problems]
            number += 1
    return kills, found


def table(kills: Sequence[Kill], differing: Sequence[str], title: str) -> str:
    """One row of docs/reliability.md, and the moments of the kills."""
    seconds = sorted(kill.seconds for kill in kills)
    clean = sum(kill.is_clean for kill in kills)
    firsts = sum(kill.rank == 0 for kill in kills)
    end = "all bit-identical" if not differing else "; ".join(differing)
    moments = Counter(kill.stage.split("-")[0] for kill in kills)
    return (
        f"| {title} | {len(kills)} ({firsts}) | {clean} | "
        f"{median(seconds):.1f}, {seconds[-1]:.1f} | {end} |\n"
        f"moments: {', '.join(f'{name} {count}' for name, count in moments.most_common())}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=1, help="processes per machine")
    parser.add_argument("--recipe", default="digits-er")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    settings = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
    start = [arguments.recipe, "--seed", str(arguments.seed), *settings]
    with tempfile.TemporaryDirectory() as folder:
        kills, differing = kill_and_resume(
            start, Path(folder), arguments.kills, arguments.machines, arguments.tasks,
            arguments.seed,
        )  # fmt: skip
    title = f"{arguments.machines} x {arguments.tasks}, {arguments.recipe}"
    print(table(kills, differing, title))
    sys.exit(0 if not differing and all(kill.is_clean for kill in kills) else 1)


if __name__ == "__main__":
    main()
