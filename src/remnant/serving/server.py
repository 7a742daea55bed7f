"""Starts the server of a store and runs it until it is interrupted."""

from __future__ import annotations

import ipaddress
import logging
import re
import secrets
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from remnant.errors import InputError
from remnant.serving.app import build_app
from remnant.serving.connections import LimitedConnection
from remnant.serving.guard import Rules
from remnant.serving.store_session import StoreSession
from remnant.serving.uploads import LIMITS

_MIN_TOKEN = 16  # characters
_FORM_BYTES = 1 << 20  # overhead of a multipart form, at most
_TURN_SECONDS = (
    0.0005  # a prediction gives way to other threads, and waits for its turn, many times
)
_SHUTDOWN_SECONDS = 5  # that open connections get to finish


@dataclass(frozen=True)
class Address:
    """The address of a running server."""

    host: str
    port: int
    is_loopback: bool
    token: str | None
    proxied_as: str | None = None

    @property
    def url(self) -> str:
        """The address of the page, with the token if there is one."""
        query = f"?token={self.token}" if self.token else ""
        if self.proxied_as is not None:
            return f"https://{self.proxied_as}/{query}"
        name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        host = f"[{name}]" if ":" in name else name
        return f"http://{host}:{self.port}/{query}"


def serve(
    path: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    proxied_as: str | None = None,
    audit: Path | None = None,
    on_ready: Callable[[Address], None],
) -> None:
    """Serve a store until SIGINT or SIGTERM.

    Args:
        path: The store file.
        host: Address to listen on. If other machines can reach it, a token is required; a random
            one is generated if none is given.
        port: 0 picks a free port.
        token: 16 or more letters, digits, `-` and `_`.
        proxied_as: The name under which a reverse proxy with TLS is reached; a token is required
            then too.
        audit: A file to which a line is added for every attempt to change the store.
        on_ready: Called with the address as soon as it accepts connections.

    Raises:
        InputError: The store cannot be read, the address is in use, the token is too weak, or
            `proxied_as` is no name of a host.
    """
    if token is not None:
        _check_token(token)
    if proxied_as is not None:
        _check_host_name(proxied_as)
    # Unreadable forms are reported to the client; they need no line in the log.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    session = StoreSession(path, audit)
    turn_seconds = sys.getswitchinterval()
    sys.setswitchinterval(_TURN_SECONDS)
    try:
        with _listen(host, port) as listener:
            address = _describe(listener, host, token, proxied_as)
            server = uvicorn.Server(_configure(session, address))
            on_ready(address)
            with suppress(KeyboardInterrupt):  # raised by uvicorn after a clean shutdown
                server.run(sockets=[listener])
    finally:
        sys.setswitchinterval(turn_seconds)
        session.close()


def _configure(session: StoreSession, address: Address) -> uvicorn.Config:
    rules = Rules(
        host=address.host,
        is_loopback=address.is_loopback,
        token=address.token,
        cookie=f"remnant-{address.port}",
        proxied_as=address.proxied_as,
        request_bytes=LIMITS.request_bytes + _FORM_BYTES,
        refusal_seconds=LimitedConnection.deadlines.refusal,
    )
    return uvicorn.Config(
        build_app(session, rules),
        http=LimitedConnection,
        log_level="error",  # a warning for every nonsense would let anybody fill the log
        access_log=False,  # URLs may contain the token
        server_header=False,
        # The proxy's word on who asks is taken from this machine alone.
        proxy_headers=address.proxied_as is not None,
        forwarded_allow_ips="127.0.0.1,::1",
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )


def _listen(host: str, port: int) -> socket.socket:
    """A socket that accepts connections from now on.

    Raises:
        InputError: There is no such address, or it is in use.
    """
    if not 0 <= port <= 65535:
        raise InputError(f"--port must be from 0 to 65535; got {port}. Choose another one.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"--host must be an address of this machine; got {host!r} ({error})."
        ) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen()
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot listen on {host} port {port}: {error.strerror}. Choose another --port; 0 "
            "picks a free one."
        ) from None
    return listener


def _describe(
    listener: socket.socket, host: str, token: str | None, proxied_as: str | None = None
) -> Address:
    bound, port = listener.getsockname()[:2]
    is_loopback = ipaddress.ip_address(bound).is_loopback
    if token is None and (proxied_as is not None or not is_loopback):
        token = secrets.token_urlsafe(24)
    return Address(host, port, is_loopback, token, proxied_as)


def _check_token(token: str) -> None:
    is_plain = token.isascii() and token.replace("-", "").replace("_", "").isalnum()
    if not is_plain or len(token) < _MIN_TOKEN:
        raise InputError(
            f"a token must have {_MIN_TOKEN} or more letters, digits, - or _ and nothing else; "
            f"got {len(token)} characters. Leave it out to get a random one."
        )


def _check_host_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9.-]+", name):
        raise InputError(
            "--proxied-as must be a host name such as store.example.org, without https:// and "
            f"port; got {name!r}."
        )
