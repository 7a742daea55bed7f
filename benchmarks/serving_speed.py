"""Requests per second of `POST /api/predict`, and the processor time that each takes.

    python benchmarks/serving_speed.py --requests 300 --clients 1

Serves a store of digits at 32 pixels with the default network on one thread. On a busy machine look
at the processor time: 10 ms are 100 requests per second of one core.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
from PIL import Image

from remnant.learner import learn_into_store


def make_store(folder: Path) -> Path:
    images = np.random.default_rng(0).integers(0, 256, (24, 32, 32, 3), dtype=np.uint8)
    store = folder / "noise.remnant"
    labels = [str(index % 4) for index in range(24)]
    learn_into_store(store, images, labels, epochs=1, threads=1, image_size=32, quiet=True)
    return store


def processor_seconds(process: int) -> float:
    """Linux only."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(url: str, picture: bytes, count: int) -> None:
    with httpx.Client(base_url=url, timeout=60) as client:
        for _ in range(count):
            client.post("/api/predict", files={"image": ("x.png", picture)}).raise_for_status()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--store", type=Path, help="another store to serve")
    given = parser.parse_args()
    stream = io.BytesIO()
    noise = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(noise).save(stream, "png")
    with tempfile.TemporaryDirectory() as folder:
        store = given.store or make_store(Path(folder))
        command = [sys.executable, "-m", "remnant", "serve", str(store), "--port", "0"]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        ) as server:
            assert server.stdout is not None, "it was asked for"
            url = server.stdout.readline().partition(": ")[2].strip()
            assert urlsplit(url).port, "the server did not start"
            ask(url, stream.getvalue(), 20)
            began, before = time.perf_counter(), processor_seconds(server.pid)
            each = given.requests // given.clients
            threads = [
                threading.Thread(target=ask, args=(url, stream.getvalue(), each))
                for _ in range(given.clients)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            seconds = time.perf_counter() - began
            spent = processor_seconds(server.pid) - before
            server.terminate()
    total = each * given.clients
    print(
        f"{total} requests of {given.clients} clients: {total / seconds:.0f} per second; "
        f"{1000 * spent / total:.1f} ms of the processor each, {total / spent:.0f} per second of "
        "one core"
    )


if __name__ == "__main__":
    main()
