"""HTTP clients: one for an app in this process, and a server in a process of its own."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import httpx
import numpy as np
from PIL import Image

from tests.support.digit_pictures import digit_pictures
from tests.support.small_learner import add_pixels, stripes, tiny_learner

ADDRESS = "http://127.0.0.1:8765"
_SECONDS_TO_START = 240  # on a busy machine importing torch takes a minute


class Client:
    """Sends requests to an app; each call has its own event loop."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
                return await client.request(method, path, **options)

        return asyncio.run(ask())

    def teach(self, name: str | list[str], images: list[bytes], **fields: Any) -> httpx.Response:
        data = {"name": name, **fields}
        return self("POST", "/api/teach", data=data, files=as_files(images))

    def taught(self, name: str | list[str], images: list[bytes], **fields: Any) -> dict[str, Any]:
        """The status of a teaching job once it has ended."""
        answer = self.teach(name, images, **fields)
        assert answer.status_code == 202, answer.text
        return self.finished_job(answer.json()["id"])

    def finished_job(self, number: int) -> dict[str, Any]:
        """The status of a job once it has ended."""
        for _ in range(2000):
            job = self("GET", f"/api/jobs/{number}").json()
            if job["state"] != "running":
                return job
            time.sleep(0.01)
        raise AssertionError(f"the job does not end: {job}")

    def predict(self, image: bytes) -> str:
        answer = self("POST", "/api/predict", files={"image": ("x.png", image)})
        return answer.json()["guesses"][0]["name"]


def as_files(images: list[bytes]) -> list[Any]:
    return [("images", (f"{index}.png", content)) for index, content in enumerate(images)]


def png(image: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="PNG")
    return buffer.getvalue()


def pictures(*names: str, per_class: int = 3, seed: int = 1) -> list[bytes]:
    """Stripes as PNG files."""
    return [png(image) for image in stripes(*names, per_class=per_class, seed=seed)[0]]


def sentence(answer: Any, status: int) -> str:
    """The error message of a response."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    return answer.json()["error"]


class RealServer:
    """`remnant serve` on any free port, with the pixel method among the methods."""

    def __init__(self, folder: Path, *options: str, store: Path | None = None) -> None:
        self.store = store or folder / "digits.remnant"
        self._options = options
        if not self.store.exists():
            _write_digits(self.store)

    def __enter__(self) -> Self:
        program = Path(__file__).with_name("serve_pixels.py")
        self.process = subprocess.Popen(
            [sys.executable, program, str(self.store), "--port", "0", *self._options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert "http://" in self.line, self.process.communicate()[1]
        self.url = self.line.partition(": ")[2].strip()
        return self

    def stop(self, how: int = signal.SIGINT) -> tuple[int, str]:
        """Exit code and standard error."""
        if self.process.returncode is None:
            self.process.send_signal(how)
        _, errors = self.process.communicate(timeout=_SECONDS_TO_START)
        return self.process.returncode, errors

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def _write_digits(path: Path) -> None:
    add_pixels()
    images = [one for digit in range(3) for one in digit_pictures(digit, 12)]
    labels = [name for name in ("zero", "one", "two") for _ in range(12)]
    tiny_learner(epochs=30).partial_fit(images, labels).save(path)
