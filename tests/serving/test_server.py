"""`remnant serve`: in this process where it fails, in its own process where it serves."""

from __future__ import annotations

import importlib.util
import signal
import socket
import time
from pathlib import Path

import httpx
import pytest

from remnant.cli import serve_commands
from remnant.learner import Learner
from tests.support.command_line import Command
from tests.support.digit_pictures import digit_pictures
from tests.support.http_client import RealServer, png


def teach(server: RealServer, name: str, digit: int) -> httpx.Response:
    files = [("images", ("x.png", png(one))) for one in digit_pictures(digit, 12)]
    return httpx.post(f"{server.url}api/teach", data={"name": name}, files=files, timeout=60)


def test_problems_with_store_and_address_are_explained(
    command: Command, store: Path, tmp_path: Path
) -> None:
    assert "none.remnant does not exist" in command("serve", tmp_path / "none.remnant").sentence
    assert "it is a folder" in command("serve", tmp_path).sentence
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = command("serve", store, "--port", str(port)).sentence
    assert message.startswith(f"cannot listen on 127.0.0.1 port {port}: Address already in use.")
    assert "0 to 65535; got 99999" in command("serve", store, "--port", "99999").sentence
    assert "host must be an address" in command("serve", store, "--host", "no.invalid").sentence
    assert "token must have 16" in command("serve", store, "--token", "1234").sentence
    for name in ("https://store.example.org", "store.example.org:443", "a b", ""):
        message = command("serve", store, f"--proxied-as={name}").sentence
        assert message.startswith("--proxied-as must be a host name such as store.example.org")
        assert message.endswith(f"got {name!r}.")


def test_a_missing_extra_is_explained(
    command: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> object:
        return None if name == "uvicorn" else importlib.util.find_spec(name)

    monkeypatch.setattr(serve_commands, "find_spec", find)
    assert command("serve", store).sentence.endswith('pip install -c constraints.txt -e ".[serve]"')


def test_the_server_is_reached_by_its_address(server: RealServer) -> None:
    assert server.line.startswith("digits.remnant: http://127.0.0.1:")
    assert "digits.remnant" in httpx.get(server.url, timeout=60).text
    answer = httpx.get(server.url, headers={"Host": "evil.example"}, timeout=60)
    assert answer.status_code == 421
    assert "server" not in answer.headers


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_server_killed_during_a_job_leaves_the_store_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: int
) -> None:
    monkeypatch.setenv("SECONDS_PER_STEP", "0.2")
    with RealServer(tmp_path) as server:
        before = Learner.load(server.store).digest()
        assert teach(server, "three", 3).status_code == 202
        while httpx.get(f"{server.url}api/jobs/1", timeout=60).json()["share_done"] < 0.05:
            time.sleep(0.05)
        code, errors = server.stop(how)
    assert code == (0 if how == signal.SIGINT else -how)
    assert "Traceback" not in errors
    assert Learner.load(server.store).digest() == before
    monkeypatch.setenv("SECONDS_PER_STEP", "0")
    with RealServer(tmp_path, "--token", "x" * 20) as server:
        assert server.url.endswith(f"/?token={'x' * 20}")
        server.url = server.url.partition("?")[0]
        assert teach(server, "three", 3).status_code == 401
        headers = {"Authorization": f"Bearer {'x' * 20}"}
        files = [("images", ("x.png", png(one))) for one in digit_pictures(3, 12)]
        form = {"data": {"name": "three"}, "files": files, "headers": headers, "timeout": 60}
        assert httpx.post(f"{server.url}api/teach", **form).status_code == 202
        while (
            "three" not in httpx.get(f"{server.url}api/classes", headers=headers, timeout=60).text
        ):
            time.sleep(0.05)
        assert server.stop(signal.SIGINT)[0] == 0
    assert Learner.load(server.store).classes_.tolist() == ["one", "two", "zero", "three"]
