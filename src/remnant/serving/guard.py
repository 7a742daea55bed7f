"""Access checks that every request passes before the app sees it.

A page of another site can make the user's browser send requests to this server. Three rules stop
it: the Host header must name this server (against DNS rebinding), requests other than GET, HEAD
and OPTIONS must come from our own page or from no page, and responses must not be embedded.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_WRONG_HOST = (
    "the Host header must name this server; got another name. Use the address that the server "
    "printed."
)
_CROSS_SITE = (
    "POST and DELETE requests must come from this server's own page or from a program; this one "
    "came from a page of another site."
)
_NO_TOKEN = (
    "this server requires a token. Open the address that it printed, or send the header "
    "Authorization: Bearer TOKEN."
)
_NO_FORM = (
    "the body of a request must be multipart/form-data; got application/x-www-form-urlencoded. See "
    "/docs."
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",  # pictures of a removed class must not stay in a browser
}

_HEADER_LINES = [(name.lower().encode(), text.encode()) for name, text in HEADERS.items()]


@dataclass(frozen=True)
class Rules:
    """What a server requires of every request."""

    host: str = "127.0.0.1"  # to listen on, as the user wrote it
    is_loopback: bool = True
    token: str | None = None  # None: no token is required
    proxied_as: str | None = None  # the name of a proxy with TLS in front
    cookie: str = "remnant"  # must differ by port: browsers share cookies among ports
    request_bytes: int = 1 << 30
    # By which a refusal is held back: who sends nonsense in a loop leaves the server to others.
    refusal_seconds: float = 0.0

    def accepts_host(self, host: str) -> bool:
        """Whether a Host header names this server; an IP address cannot be a rebound DNS name."""
        name = _without_port(host).lower().rstrip(".")
        if name in ("localhost", self.host.lower(), (self.proxied_as or "localhost").lower()):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self.is_loopback

    def is_authorized(self, headers: Mapping[str, str]) -> bool:
        """Whether a request carries the token, as a bearer token or in our cookie."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return True
        # Not SimpleCookie, which drops ours for an odd one of another program on this machine.
        cookie = cookie_parser(headers.get("cookie", "")).get(self.cookie)
        return cookie is not None and self.is_token(cookie)

    def is_token(self, given: str) -> bool:
        if self.token is None:
            return True
        # Takes the same time however many characters match.
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
                if 400 <= message["status"] < 500:
                    await asyncio.sleep(self._rules.refusal_seconds)
                message = {**message, "headers": [*message["headers"], *_HEADER_LINES]}
            await send(message)

        response = self._intercept(scope)
        if response is None:
            receive = _limited(receive, self._rules.request_bytes)
            await self._app(scope, receive, send_with_headers)
        else:
            await response(scope, receive, send_with_headers)

    def _intercept(self, scope: Scope) -> Response | None:
        """The response to send in place of the app's; None if the request may pass."""
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if not self._rules.accepts_host(headers.get("host", "")):
            return error_response(421, _WRONG_HOST)
        if scope["method"] not in _SAFE_METHODS and not _is_same_site(headers):
            return error_response(403, _CROSS_SITE)
        if _content_length(headers) > self._rules.request_bytes:
            return error_response(413, _too_large(self._rules.request_bytes))
        if _is_urlencoded(headers):
            return error_response(415, _NO_FORM)
        if self._rules.token is None:
            return None
        return self._sign_in(scope) or (
            None if self._rules.is_authorized(headers) else _unauthorized()
        )

    def _sign_in(self, scope: Scope) -> Response | None:
        """Sets the cookie of a browser that opens the page with the token in its address."""
        if scope["path"] != "/" or scope["method"] != "GET":
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not given or self._rules.token is None or not self._rules.is_token(given):
            return None
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(
            self._rules.cookie,
            self._rules.token,
            path="/",
            httponly=True,
            samesite="strict",
            secure=self._rules.proxied_as is not None,
        )
        return response


def error_response(
    status: int, sentence: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The body of every error."""
    return JSONResponse({"error": sentence}, status, headers=headers)


def _unauthorized() -> Response:
    return error_response(401, _NO_TOKEN, {"WWW-Authenticate": "Bearer"})


def _is_same_site(headers: Mapping[str, str]) -> bool:
    """Whether a request comes from our own page, or from no page at all."""
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
    """The name in a Host header; "" where it is none."""
    if host.startswith("["):  # IPv6
        name, end, port = host[1:].partition("]")
        return name if end and _is_port(port) else ""
    name, colon, port = host.partition(":")
    return name if _is_port(colon + port) else host


def _is_port(text: str) -> bool:
    """Nothing, or a colon and digits."""
    return not text or (text[0] == ":" and text[1:].isascii() and text[1:].isdigit())


def _content_length(headers: Mapping[str, str]) -> int:
    text = headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def _is_urlencoded(headers: Mapping[str, str]) -> bool:
    """Whether there is a form that cannot hold an image, and takes long to read."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/x-www-form-urlencoded" and headers.get("content-length") != "0"


def _limited(receive: Receive, limit: int) -> Receive:
    """`receive`, with a 413 once the body exceeds the limit: Content-Length may be missing."""
    num_bytes = 0

    async def counted() -> Message:
        nonlocal num_bytes
        message = await receive()
        num_bytes += len(message.get("body", b""))
        if num_bytes > limit:
            _reject_body(limit)
        return message

    return counted


def _reject_body(limit: int) -> NoReturn:
    raise HTTPException(413, _too_large(limit))


def _too_large(limit: int) -> str:
    return f"a request must have at most {limit >> 20} MiB; got more. Send fewer or smaller images."
