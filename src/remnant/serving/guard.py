"""Who may ask: checks that every request passes before anything else sees it.

A page of another site can make a browser send requests here. It is kept out by three rules: the
request must name this server (a foreign name that resolves to this machine does not), whatever
changes something must come from our own page, and no other site may embed what is answered.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import NoReturn
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_MISNAMED = "this server is known by its address alone. Use the one that it printed."
_FOREIGN = "only the page of this server may change something; another site asked."
_UNKNOWN = (
    "this server asks for a token. Open the address that it printed, or send the header "
    "Authorization: Bearer TOKEN."
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",  # what is forgotten must not linger in a browser
}


@dataclass(frozen=True)
class Rules:
    """What a server asks of every request."""

    host: str = "127.0.0.1"  # that it listens at, as the user wrote it
    is_loopback: bool = True
    token: str | None = None  # None: whoever reaches the server may ask
    cookie: str = "remnant"  # browsers share cookies among ports, so each server needs its own
    request_bytes: int = 1 << 30

    def names(self, host: str) -> bool:
        """Whether a Host header means this server; a number cannot be a name of somebody else's."""
        name = _without_port(host).lower().rstrip(".")
        if name in ("localhost", self.host.lower()):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self.is_loopback

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether a request carries the token, in its header or in our cookie."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return cookie is not None and self.is_token(cookie.value)

    def is_token(self, given: str) -> bool:
        if self.token is None:
            return True
        # In a time that does not tell how many characters were right.
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


class Guard:
    """The outermost layer of the app."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), text.encode()) for name, text in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        answer = self._answer(scope)
        if answer is None:
            receive = _limited(receive, self._rules.request_bytes)
            await self._app(scope, receive, send_with_headers)
        else:
            await answer(scope, receive, send_with_headers)

    def _answer(self, scope: Scope) -> Response | None:
        """What is said in place of the app; None: the app may speak."""
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if not self._rules.names(headers.get("host", "")):
            return refuse(421, _MISNAMED)
        if scope["method"] not in _SAFE_METHODS and not _is_from_here(headers):
            return refuse(403, _FOREIGN)
        if _announced_bytes(headers) > self._rules.request_bytes:
            return refuse(413, _too_much(self._rules.request_bytes))
        if self._rules.token is None:
            return None
        return self._let_in(scope) or (None if self._rules.knows(headers) else _ask_for_token())

    def _let_in(self, scope: Scope) -> Response | None:
        """A browser that brings the token in the address of the page gets it as a cookie."""
        if scope["path"] != "/" or scope["method"] != "GET":
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not given or self._rules.token is None or not self._rules.is_token(given):
            return None
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(
            self._rules.cookie, self._rules.token, path="/", httponly=True, samesite="strict"
        )
        return answer


def refuse(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The one form of every failure."""
    return JSONResponse({"error": sentence}, status, headers=headers)


def _ask_for_token() -> Response:
    return refuse(401, _UNKNOWN, {"WWW-Authenticate": "Bearer"})


def _is_from_here(headers: Mapping[str, str]) -> bool:
    """Whether the page of this server, or no page at all, made a request."""
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or _host_of(origin) == headers.get("host", "").lower()


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _without_port(host: str) -> str:
    if host.startswith("["):  # IPv6
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _announced_bytes(headers: Mapping[str, str]) -> int:
    text = headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def _limited(receive: Receive, limit: int) -> Receive:
    """A body that is refused once it is longer than it may be, whatever was announced."""
    num_bytes = 0

    async def counted() -> Message:
        nonlocal num_bytes
        message = await receive()
        num_bytes += len(message.get("body", b""))
        if num_bytes > limit:
            _refuse_body(limit)
        return message

    return counted


def _refuse_body(limit: int) -> NoReturn:
    raise HTTPException(413, _too_much(limit))


def _too_much(limit: int) -> str:
    return f"a request must have at most {limit >> 20} MiB; got more. Send fewer or smaller images."
