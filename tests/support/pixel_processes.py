"""Runs of the pixel method in processes of their own, and what these sampled and learned."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from remnant.files import write_json
from tests.support.pixel_method import schedule

SCRIPT = Path(__file__).with_name("pixel_run.py")


def write_config(path: Path, devices: int) -> Path:
    first = schedule(2, 8).model_dump(mode="json")
    # Batches of one leave a process without rows.
    later = schedule(1, 1, lr=0.0001).model_dump(mode="json")
    config = {
        "data": {"dataset": "digits", "images_per_class": 9, "image_size": 8},
        "stream": {"num_classes": 4, "num_tasks": 2},
        "augment": {"train": "crop-flip", "padding": 1},
        "memory": {"budget": "3images/class"},
        "method": {"name": "pixels", "first": first, "later": later},
        "training": {
            "accelerator": "cpu",
            "devices": devices,
            "threads": 1,
            "log_every_steps": 1,
            "checkpoint_every_steps": 3,
        },
    }
    write_json(path, config)
    return path


def start(arguments: list[str], **environment: str) -> subprocess.Popen[str]:
    # A process group of its own, so that nothing the test starts can outlive it.
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], timeout: float = 200) -> str:
    try:
        _, errors = process.communicate(timeout=timeout)
    finally:
        end_group(process)
    return errors


def end_group(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def run(folder: Path, devices: int) -> Path:
    folder.mkdir()
    config = write_config(folder / "config.json", devices)
    process = start(["run", str(config), str(folder / "run")])
    errors = finish(process)
    assert process.returncode == 0, errors
    return folder / "run"


def losses(folder: Path) -> list[float]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [event["loss"] for event in map(json.loads, lines) if event["event"] == "step"]


def sampled_ids(folder: Path) -> list[list[int]]:
    """The ids of every step of the run, the first process's rows first."""
    by_process: list[list[dict[str, Any]]] = []
    for path in sorted(folder.parent.glob("ids-*.jsonl")):
        by_process.append([json.loads(line) for line in path.read_text().splitlines()])
    rows: dict[tuple[int, int], list[int]] = defaultdict(list)
    for lines in by_process:
        task, last = 0, -1
        for line in lines:
            task, last = task + (line["step"] <= last), line["step"]
            rows[task, last] += line["ids"]
    return [rows[place] for place in sorted(rows)]


def digest(folder: Path) -> str:
    return json.loads((folder / "result.json").read_text())["memory"]["digest"]


def wait_for(condition: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the awaited did not happen"
        time.sleep(0.05)
