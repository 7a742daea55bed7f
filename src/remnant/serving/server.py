"""From a store and an address to a server that answers until it is told to stop."""

from __future__ import annotations

import ipaddress
import logging
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from remnant.errors import InputError
from remnant.serving.app import build_app
from remnant.serving.guard import Rules
from remnant.serving.store_session import ServedStore
from remnant.serving.uploads import LIMITS

_MIN_TOKEN = 16  # characters
_FORM_BYTES = 1 << 20  # what a form adds to the images in it
_SECONDS_TO_END = 5  # that open connections get when the server stops


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int
    is_loopback: bool
    token: str | None

    @property
    def url(self) -> str:
        """For this machine; whoever opens it with the token in it is let in."""
        name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        host = f"[{name}]" if ":" in name else name
        return f"http://{host}:{self.port}/" + (f"?token={self.token}" if self.token else "")


def serve(
    path: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    on_ready: Callable[[Address], None],
) -> None:
    """Answer requests about a store until SIGINT or SIGTERM.

    Args:
        path: Of the store.
        host: Beyond this machine only with a token: one is drawn if none is given.
        port: 0: any that is free.
        token: Letters, digits, `-` and `_`.
        on_ready: Told the address as soon as it can be opened.

    Raises:
        InputError: The store cannot be read, the address is taken, or the token is too weak.
    """
    if token is not None:
        _check_token(token)
    # Of forms that cannot be read the sender is told, and nobody else need be.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    store = ServedStore(path)
    try:
        with _listen(host, port) as listener:
            address = _describe(listener, host, token)
            server = uvicorn.Server(_configure(store, address))
            on_ready(address)
            with suppress(KeyboardInterrupt):  # uvicorn's own, once all has ended well
                server.run(sockets=[listener])
    finally:
        store.close()


def _configure(store: ServedStore, address: Address) -> uvicorn.Config:
    rules = Rules(
        host=address.host,
        is_loopback=address.is_loopback,
        token=address.token,
        cookie=f"remnant-{address.port}",
        request_bytes=LIMITS.request_bytes + _FORM_BYTES,
    )
    return uvicorn.Config(
        build_app(store, rules),
        log_level="warning",
        access_log=False,  # addresses may hold the token
        server_header=False,
        timeout_graceful_shutdown=_SECONDS_TO_END,
    )


def _listen(host: str, port: int) -> socket.socket:
    """A socket at which callers wait from now on.

    Raises:
        InputError: There is no such address, or another program listens there.
    """
    if not 0 <= port <= 65535:
        raise InputError(f"a port is a number from 0 to 65535; got {port}. Choose another --port.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"the host must be an address of this machine; got {host!r} ({error})."
        ) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen()
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot listen at {host} port {port}: {error.strerror}. Choose another --port; 0 "
            "takes any free one."
        ) from None
    return listener


def _describe(listener: socket.socket, host: str, token: str | None) -> Address:
    bound, port = listener.getsockname()[:2]
    is_loopback = ipaddress.ip_address(bound).is_loopback
    if token is None and not is_loopback:
        token = secrets.token_urlsafe(24)
    return Address(host, port, is_loopback, token)


def _check_token(token: str) -> None:
    is_plain = token.isascii() and token.replace("-", "").replace("_", "").isalnum()
    if not is_plain or len(token) < _MIN_TOKEN:
        raise InputError(
            f"a token must have {_MIN_TOKEN} or more letters, digits, - or _; got {len(token)} "
            "characters. Leave it out to get one drawn."
        )
