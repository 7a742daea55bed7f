"""H: requests that lie, never end, ask for too much or are no requests, beside an honest client.

Each must get a status of 400 to 499, or be hung up on; the server stays, its memory too, and the
honest client is answered about as soon as before.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np

from remnant.learner import learn_into_store
from tests.attacks.hostile_files import bombs, hostile_image, png_that_claims
from tests.attacks.tally import Tally, resident_megabytes
from tests.support.digit_pictures import digit_pictures
from tests.support.http_client import RealServer, png

MEGABYTES = 200.0  # that the server may grow by
_PATIENCE = 60  # seconds
_BOMB_BYTES = 4 << 20  # a larger file is no bomb
_ATTACKERS = 4  # requests at a time
_ROUNDS = 5
_ALONE = 40  # requests of the honest client before each round
Request = tuple[str, bytes]  # what it is, and its bytes


def _head(line: str, length: int | None, *more: str) -> bytes:
    lines = [line, "Host: 127.0.0.1", "Connection: close", *more]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _form(path: str, parts: list[tuple[str, bytes]]) -> bytes:
    """A multipart form; a part is its disposition and its content."""
    body = b"".join(
        b"--x\r\nContent-Disposition: form-data; " + what.encode() + b"\r\n\r\n" + content + b"\r\n"
        for what, content in parts
    )
    body += b"--x--\r\n"
    kind = "Content-Type: multipart/form-data; boundary=x"
    return _head(f"POST {path} HTTP/1.1", len(body), kind) + body


def _image(content: bytes, name: str = "a.png") -> list[tuple[str, bytes]]:
    return [(f'name="image"; filename="{name}"', content)]


def _hostile_image(chance: random.Random) -> Request:
    what, content = hostile_image(chance, chance.choice([1, 9]))
    return f"an image, {what}", _form("/api/predict", _image(content + b"\0" * 7))


def _bomb(chance: random.Random) -> Request:
    small = {what: content for what, content in bombs().items() if len(content) < _BOMB_BYTES}
    what, content = chance.choice(sorted(small.items()))
    return f"a bomb, {what}", _form("/api/predict", _image(content))


def _too_long(chance: random.Random) -> Request:
    length = chance.choice([10**10, 10**30, 2**63])
    return "10 GB declared", _head("POST /api/predict HTTP/1.1", length)


def _many_fields(chance: random.Random) -> Request:
    parts = [(f'name="f{index}"', b"x") for index in range(chance.choice([1001, 10_000]))]
    return "many fields", _form(chance.choice(["/api/predict", "/api/teach"]), parts)


def _urlencoded(chance: random.Random) -> Request:
    body = b"&".join(b"a%d=1" % index for index in range(chance.choice([10, 20_000])))
    kind = "Content-Type: application/x-www-form-urlencoded"
    return "urlencoded", _head("POST /api/teach HTTP/1.1", len(body), kind) + body


def _text_for_a_file(chance: random.Random) -> Request:
    return "text for a file", _form("/api/predict", [('name="image"', chance.randbytes(20))])


def _bad_chunks(chance: random.Random) -> Request:
    kind = "Content-Type: multipart/form-data; boundary=x"
    head = _head("POST /api/predict HTTP/1.1", None, kind, "Transfer-Encoding: chunked")
    size = chance.choice([b"zz", b"-1", b"ffffffffffffffffffff", b"5;" + b"a" * 70_000])
    return "bad chunks", head + size + b"\r\n" + chance.randbytes(500)


def _traversal(chance: random.Random) -> Request:
    path = chance.choice(
        ["/../../etc/passwd", "/static/..%2f..%2fetc%2fpasswd", "/api/classes/..%2f/exemplars",
         "/api/jobs/../../x", "//etc/passwd", "/api/classes/%00/exemplars", "/%2e%2e/%2e%2e/x"]
    )  # fmt: skip
    return f"traversal {path}", _head(f"GET {path} HTTP/1.1", None)


def _odd_name(chance: random.Random) -> Request:
    name = chance.choice([b"..", b"\0", b"a" * 5000, b"", b" ", b"\x1b[2J", b"a\nb", b"\xff"])
    image = ('name="images"; filename="../../x.png"', png(digit_pictures(0, 1)[0]))
    return "an odd name", _form("/api/teach", [('name="name"', name), image])


def _foreign(chance: random.Random) -> Request:
    line = chance.choice(["Origin: http://evil.example", "Sec-Fetch-Site: cross-site"])
    return "another site", _head("POST /api/undo HTTP/1.1", 0, line)


def _foreign_host(chance: random.Random) -> Request:
    name = chance.choice(["evil.example", "127.0.0.1.evil.example", "", "[::1", "localhost:x@y"])
    head = f"GET /api/store HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
    return f"host {name!r}", head.encode()


def _garbage(chance: random.Random) -> Request:
    return "garbage", chance.randbytes(chance.choice([1, 100, 5000])) + b"\r\n\r\n"


def _long_head(chance: random.Random) -> Request:
    line = f"X-Long: {'a' * chance.choice([10**6, 10**7])}"
    return "a long head", _head("GET /api/store HTTP/1.1", None, line)


def _wrong_way(chance: random.Random) -> Request:
    line = chance.choice(["PUT /api/store", "DELETE /api/store", "TRACE /", "GET /api/teach"])
    return line, _head(f"{line} HTTP/1.1", 0)


def _odd_number(chance: random.Random) -> Request:
    number = chance.choice(["-1", "1e9", "x", "9" * 5000, "%00"])
    return f"top={number[:9]}", _form(f"/api/predict?top={number}", _image(png_that_claims(1, 1)))


KINDS: tuple[Callable[[random.Random], Request], ...] = (
    _hostile_image, _hostile_image, _hostile_image, _too_long, _many_fields, _urlencoded,
    _text_for_a_file, _bad_chunks, _traversal, _odd_name, _foreign, _foreign_host, _garbage,
    _long_head, _wrong_way, _odd_number,
)  # fmt: skip
_MAY_BE_RIGHT = ("an image", "a bomb")  # a mutant may be an image still


def send(port: int, what: str, request: bytes) -> str | None:
    """What is wrong with the answer, if anything."""
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # hung up on before it was all sent
            connection.sendall(request)
        answer = b""
        try:
            with suppress(ConnectionResetError):
                while part := connection.recv(65536):
                    answer += part
        except TimeoutError:
            return f"{what}: no answer within {_PATIENCE} s"
    if not answer:
        return None
    status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0
    is_right = 400 <= status < 500 or (status == 200 and what.startswith(_MAY_BE_RIGHT))
    return None if is_right else f"{what}: status {status}"


class HonestClient:
    """Asks for predictions, one after another, and notes how long each takes."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=_PATIENCE)
        self._picture = png(digit_pictures(1, 1)[0])
        self.problems: list[str] = []

    def ask(self) -> float:
        began = time.perf_counter()
        answer = self._client.post("/api/predict", files={"image": ("x.png", self._picture)})
        if answer.status_code != 200:
            self.problems.append(f"the honest client got {answer.status_code}")
        return time.perf_counter() - began

    def close(self) -> None:
        self._client.close()

    def ask_often(self, is_over: Callable[[], bool], times: list[float]) -> None:
        while not is_over():
            try:
                times.append(self.ask())
            except httpx.HTTPError as error:
                self.problems.append(f"the honest client: {type(error).__name__}")
            time.sleep(0.01)

    @contextmanager
    def asking(self, times: list[float]) -> Iterator[None]:
        """Asks all the while."""
        is_over = threading.Event()
        thread = threading.Thread(target=self.ask_often, args=(is_over.is_set, times))
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def _slow(port: int, chance: random.Random) -> socket.socket:
    """A connection that begins a request and never ends it."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
    kind = chance.choice(
        [_head("GET / HTTP/1.1", None)[:-4], _head("POST /api/teach HTTP/1.1", 99)]
    )
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(kind)
    return connection


def _attack_once(server: RealServer, requests: list[Request], chance: random.Random) -> Tally:
    """Some requests, a few at a time, each beside one more slow sender; notes MB of the server."""
    port = urlsplit(server.url).port or 0
    tally, lock, slow = Tally(), threading.Lock(), []

    def work() -> None:
        while True:
            with lock:
                if not requests:
                    return
                what, content = requests.pop()
                slow.append(_slow(port, chance))
            problem = send(port, what, content)
            with lock:
                tally.add(problem)
                tally.note("MB", resident_megabytes(server.process.pid))

    threads = [threading.Thread(target=work) for _ in range(_ATTACKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for connection in slow:
        connection.close()
    return tally


def _default_store(folder: Path) -> Path:
    """One as users have it: with a network of pixels an honest request would take no time."""
    images = np.random.default_rng(0).integers(0, 256, (24, 32, 32, 3), dtype=np.uint8)
    labels = [str(index % 4) for index in range(24)]
    store = folder / "default.remnant"
    learn_into_store(store, images, labels, epochs=1, threads=1, image_size=32, quiet=True)
    return store


def attack(folder: Path, seed: int, count: int, *, with_bombs: bool = True) -> Tally:
    """`count` requests, a tenth of them bombs, in rounds between which the client is alone."""
    folder.mkdir(parents=True)
    chance, tally = random.Random(seed), Tally()
    kinds = [*KINDS, _bomb, _bomb] if with_bombs else [*KINDS]
    requests = [chance.choice(kinds)(chance) for _ in range(count)]
    alone, beside = [], []
    server = RealServer(folder, store=_default_store(folder) if with_bombs else None)
    with server:
        honest = HonestClient(server.url)
        honest.ask_often(lambda: len(alone) >= _ALONE, alone)
        at_first = resident_megabytes(server.process.pid)
        alone.clear()  # what is imported once is nobody's fault
        for number in range(_ROUNDS):
            honest.ask_often(lambda: len(alone) >= _ALONE * (number + 1), alone)  # noqa: B023
            with honest.asking(beside):
                tally.join(_attack_once(server, requests[number::_ROUNDS], chance))
        tally.worst["MB"] -= at_first
        tally.note("x p95", _p95(beside) / _p95(alone))
        tally.problems += sorted(set(honest.problems))
        honest.close()
        code, errors = server.stop()
        if code != 0 or errors.count("\n") > 1:  # the first line is for its user
            tally.problems.append(f"the server ended with {code}: {errors[-500:]}")
    if tally.worst["MB"] > MEGABYTES:
        tally.problems.append(f"the server grew by {tally.worst['MB']:.0f} MB")
    return tally


def _p95(times: list[float]) -> float:
    return float(np.percentile(times, 95))
