"""Slow and many connections, over real sockets."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
import uvicorn

from remnant.serving import StoreSession, server
from remnant.serving.connections import Deadlines, LimitedConnection

PATIENCE = 60  # seconds
HALF_A_HEAD = b"GET /api/store HTTP/1.1\r\nHost: 127.0.0.1\r\n"
WHOLE_HEAD = b"GET /api/store HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HALF_A_BODY = (
    b"POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
    b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
)


class Served:
    """A server in a thread, and sockets to it."""

    def __init__(self, session: StoreSession) -> None:
        self._stack = ExitStack()
        listener = self._stack.enter_context(server._listen("127.0.0.1", 0))
        address = server._describe(listener, "127.0.0.1", None)
        self.url, self._port = address.url, address.port
        self._server = uvicorn.Server(server._configure(session, address))
        options: dict[str, Any] = {"sockets": [listener]}
        self._thread = threading.Thread(target=self._server.run, kwargs=options)
        self._thread.start()

    def connect(self, content: bytes = b"") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE)
        self._stack.enter_context(made)
        made.sendall(content)
        return made

    def is_answering(self) -> bool:
        return httpx.get(f"{self.url}api/store", timeout=PATIENCE).status_code == 200

    def wait_for_bodies(self, count: int) -> None:
        """Until so many requests have begun."""
        for _ in range(PATIENCE * 100):
            open_now = list(self._server.server_state.connections)
            if sum(one.cycle is not None for one in open_now) == count:  # pyright: ignore
                return
            time.sleep(0.01)
        raise AssertionError("the requests do not begin")

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._stack.close()


def all_of(connection: socket.socket) -> bytes:
    """What the server says until it hangs up."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_limits(**values: Any) -> None:
        found = Deadlines(check_every=0.02, **values)
        monkeypatch.setattr(LimitedConnection, "deadlines", found)

    return set_limits


@pytest.fixture
def served(session: StoreSession, limits: Any) -> Iterator[Served]:
    limits()
    found = Served(session)
    yield found
    found.stop()


def test_a_head_that_does_not_end_is_ended(served: Served, limits: Any) -> None:
    limits(head=0.1)
    answer = all_of(served.connect(HALF_A_HEAD))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the head of the request took too long" in answer
    assert all_of(served.connect()) == b""


def test_a_body_that_does_not_end_is_ended(served: Served, limits: Any) -> None:
    limits(body=0.1)
    answer = all_of(served.connect(HALF_A_BODY))
    assert b"the body of the request took too long" in answer
    assert served.is_answering()


def test_an_answer_that_takes_too_long_is_ended(
    served: Served, session: StoreSession, limits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits(answer=0.1)
    may_answer = threading.Event()
    plain = session.info
    monkeypatch.setattr(session, "info", lambda: may_answer.wait(PATIENCE) and plain())
    assert all_of(served.connect(WHOLE_HEAD)) == b""
    may_answer.set()


def test_slow_heads_give_way_to_an_honest_client(served: Served, limits: Any) -> None:
    limits(connections=5, head=PATIENCE)
    slow = [served.connect(HALF_A_HEAD) for _ in range(20)]
    assert served.is_answering()
    assert all_of(slow[0]) == b""  # the first of them waited longest


def test_slow_bodies_give_way_to_an_honest_client(served: Served, limits: Any) -> None:
    limits(connections=2, body=PATIENCE)
    slow = [served.connect(HALF_A_BODY) for _ in range(2)]
    served.wait_for_bodies(2)
    assert served.is_answering()
    assert all_of(slow[0]) == b""


def test_a_flood_does_not_end_whoever_has_had_an_answer(served: Served, limits: Any) -> None:
    limits(connections=5, head=PATIENCE)
    honest = served.connect(WHOLE_HEAD)
    assert honest.recv(65536).startswith(b"HTTP/1.1 200 ")
    flood = [served.connect(HALF_A_HEAD) for _ in range(20)]
    assert all_of(flood[0]) == b""
    honest.sendall(WHOLE_HEAD)
    received = b""  # first what is left of the first answer
    while b"HTTP/1.1 200 " not in received and (more := honest.recv(65536)):
        received += more
    assert b"HTTP/1.1 200 " in received


def test_more_connections_than_allowed_are_told(
    served: Served, session: StoreSession, limits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits(connections=2)
    may_answer = threading.Event()
    plain = session.info
    monkeypatch.setattr(session, "info", lambda: may_answer.wait(PATIENCE) and plain())
    for _ in range(2):
        served.connect(WHOLE_HEAD)
    served.wait_for_bodies(2)
    answer = all_of(served.connect())
    may_answer.set()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"too many connections" in answer


def test_nonsense_does_not_fill_the_log(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    logged = []
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "handle", logged.append)
    assert b" 400 " in all_of(served.connect(b"nonsense\r\n\r\n"))
    assert not logged


@pytest.mark.parametrize(
    "request_head",
    [b"nonsense\r\n\r\n", b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"],
    ids=["no-request", "nothing-there"],
)
def test_who_is_refused_waits_and_nobody_else_does(
    session: StoreSession, limits: Any, request_head: bytes
) -> None:
    limits(refusal=1.0)
    served = Served(session)
    began = time.monotonic()
    refused = served.connect(request_head)
    refused.settimeout(0.3)
    with pytest.raises(TimeoutError):
        refused.recv(1)
    assert served.is_answering()
    refused.settimeout(PATIENCE)
    assert all_of(refused).startswith(b"HTTP/1.1 4")
    assert time.monotonic() - began >= 1.0
    served.stop()


def test_several_requests_on_one_connection_are_no_slow_one(served: Served, limits: Any) -> None:
    limits(head=0.5)
    with httpx.Client(base_url=served.url, timeout=PATIENCE) as client:
        for _ in range(5):
            assert client.get("/api/store").status_code == 200
