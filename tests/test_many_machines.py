"""Two machines, imitated on this one: as torchrun and as srun start their processes."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.support.pixel_processes import (
    SCRIPT,
    digest,
    losses,
    run,
    sampled_ids,
    wait_for,
    write_config,
)

pytestmark = pytest.mark.slow
TIMEOUT = 280


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def started(
    commands: list[list[str]], places: list[dict[str, str]], folders: list[Path]
) -> Iterator[list[subprocess.Popen[str]]]:
    """Commands that run, each with an environment and in a folder of its own, within the block."""
    processes = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **place},
            start_new_session=True,
        )
        for command, place, folder in zip(commands, places, folders, strict=True)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def printed_by(processes: list[subprocess.Popen[str]]) -> str:
    """What all of them print until they have ended."""
    return "".join(process.communicate(timeout=TIMEOUT)[0] for process in processes)


def torchrun(folders: list[Path], per_node: int, *arguments: str, **environment: str) -> str:
    """Two agents of torchrun with addresses of their own on the loopback."""
    port = free_port()
    commands = [
        [
            sys.executable, "-m", "torch.distributed.run", "--nnodes", "2",
            "--node-rank", str(node), "--nproc-per-node", str(per_node),
            "--master-addr", "127.0.0.1", "--master-port", str(port),
            "--local-addr", f"127.0.0.{node + 1}",
            str(SCRIPT), *arguments,
        ]
        for node in range(2)
    ]  # fmt: skip
    with started(commands, [environment] * 2, folders) as agents:
        return printed_by(agents)


def srun(
    folder: Path, per_node: int, *arguments: str, **environment: str
) -> AbstractContextManager[list[subprocess.Popen[str]]]:
    """Tasks on two nodes with the environment of srun; nobody ends them when one fails."""
    count = 2 * per_node
    common = {
        "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "17", "SLURM_JOB_NAME": "train",
        "SLURM_NTASKS": str(count), "SLURM_NTASKS_PER_NODE": str(per_node), "SLURM_NNODES": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **environment,
    }  # fmt: skip
    places = [
        {
            "SLURM_PROCID": str(rank),
            "SLURM_NODEID": str(rank // per_node),
            "SLURM_LOCALID": str(rank % per_node),
        }
        for rank in range(count)
    ]
    command = [sys.executable, str(SCRIPT), *arguments]
    return started([command] * count, [common | place for place in places], [folder] * count)


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_two_machines_learn_and_remember_as_one_process(tmp_path: Path, launcher: str) -> None:
    one, folder = run(tmp_path / "one", 1), tmp_path / "many"
    folder.mkdir()
    write_config(folder / "config.json", 1)
    arguments = ("run", "config.json", str(folder / "run"))
    if launcher == "torchrun":
        printed = torchrun([folder] * 2, 2, *arguments)
    else:
        with srun(folder, 1, *arguments) as tasks:
            printed = printed_by(tasks)
    assert (folder / "run" / "result.json").exists(), printed
    training = json.loads((folder / "run" / "config.json").read_text())["training"]
    assert (training["devices"], training["num_nodes"]) == (2 if launcher == "torchrun" else 1, 2)
    assert losses(folder / "run") == pytest.approx(losses(one), abs=1e-4)
    assert sampled_ids(folder / "run") == sampled_ids(one)
    assert digest(folder / "run") == digest(one)


def test_an_image_that_one_machine_cannot_read_is_told_once(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", 1)
    arguments = ("run", "config.json", "run")
    printed = torchrun([tmp_path] * 2, 1, *arguments, PIXELS_REFUSE_IN="1")
    assert printed.count("remnant: ") == 1, printed
    assert "remnant: broken.png cannot be read in process 1." in printed
    assert "gloo" not in printed.partition("remnant: ")[2]


@pytest.mark.parametrize("rank", [0, 2])  # the first keeps the store through which they met
def test_killing_one_of_four_processes_ends_the_others_with_one_sentence(
    tmp_path: Path, rank: int
) -> None:
    write_config(tmp_path / "config.json", 1)
    with srun(tmp_path, 2, "run", "config.json", "run", PIXELS_SLEEP="0.5") as tasks:
        wait_for(lambda: all((tmp_path / f"ids-{one}.jsonl").exists() for one in range(4)))
        tasks[rank].kill()
        printed = printed_by(tasks)
    codes = [task.returncode for task in tasks]
    assert codes == [-signal.SIGKILL if one == rank else 2 for one in range(4)], printed
    assert printed.count("remnant: ") == 1, printed
    assert "remnant: another process of this run has ended. Continue the run with" in printed
    assert "Traceback" not in printed


def test_a_disk_that_is_full_for_one_machine_ends_both_with_one_sentence(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", 1)
    with srun(tmp_path, 1, "run", "config.json", "run", PIXELS_FULL_IN="0") as tasks:
        printed = printed_by(tasks)
    assert [task.returncode for task in tasks] == [2, 2], printed
    assert printed.count("remnant: ") == 1, printed
    assert os.strerror(errno.EFBIG) in printed.partition("remnant: ")[2]
    assert "Traceback" not in printed


def test_machines_that_share_no_folder_are_told_so(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        write_config(folder / "config.json", 1)
    printed = torchrun(folders, 1, "run", "config.json", "run")
    assert printed.count("remnant: ") == 1, printed
    assert "all processes must see the same folder run; they do not." in printed
