from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remnant.errors import InputError
from remnant.serving import StoreSession, build_app, server
from remnant.serving.guard import HEADERS, Rules
from tests.support.http_client import ADDRESS, Client, png
from tests.support.small_learner import stripes

TOKEN = "0123456789abcdefghij"
OPEN = Rules(host="0.0.0.0", is_loopback=False, token=TOKEN, cookie="remnant-1")
PICTURE = {"files": {"image": ("x.png", png(stripes("a")[0][0]))}}


# -------------------------------------------------------------------------------------------- hosts


@pytest.mark.parametrize(
    ("host", "locally", "openly"),
    [
        ("127.0.0.1:8765", True, True),
        ("localhost:8765", True, True),
        ("LOCALHOST.", True, True),
        ("[::1]:8765", True, True),
        ("127.9.9.9", True, True),
        ("192.168.1.7:8765", False, True),
        ("[fe80::1]", False, True),
        ("evil.example", False, False),
        ("localhost.evil.example", False, False),
        ("127.0.0.1.evil.example:8765", False, False),
        ("2130706433", False, False),
        ("[::1", False, False),
        ("[::1]x", False, False),
        ("[::1]:x", False, False),
        ("localhost:x@y", False, False),
        ("localhost:", False, False),
        ("localhost:1:2", False, False),
        ("", False, False),
    ],
)
def test_only_hosts_of_this_machine_are_accepted(host: str, locally: bool, openly: bool) -> None:
    assert Rules().accepts_host(host) == locally
    assert OPEN.accepts_host(host) == openly


def test_a_host_given_by_the_user_is_accepted() -> None:
    rules = replace(OPEN, host="printer.lan")
    assert rules.accepts_host("Printer.lan:80")
    assert not rules.accepts_host("scanner.lan")


@given(st.text(max_size=40))
def test_no_host_raises_and_no_foreign_name_is_accepted(host: str) -> None:
    assert Rules().accepts_host(host) in (True, False)
    assert not Rules().accepts_host(f"{host}.example")


def test_a_foreign_host_is_refused(client: Client) -> None:
    answer = client("GET", "/api/store", headers={"Host": "evil.example"})
    assert answer.status_code == 421
    assert list(answer.json()) == ["error"]


# ------------------------------------------------------------------------------------------ origins


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": ADDRESS}, 200),
        ({"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[broken"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_other_sites_cannot_send_requests_through_a_browser(
    client: Client, headers: dict[str, str], status: int
) -> None:
    assert client("POST", "/api/predict", headers=headers, **PICTURE).status_code == status
    if status == 403:
        assert client("DELETE", "/api/classes/a", headers=headers).status_code == 403


@pytest.mark.parametrize("path", ["/", "/docs", "/page.css", "/serve.js", "/api/store", "/nowhere"])
def test_every_response_has_the_security_headers(client: Client, path: str) -> None:
    answer = client("GET", path)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "<script>" not in answer.text
    assert "style=" not in answer.text or path.endswith((".js", ".css"))


# ------------------------------------------------------------------------------------------- tokens


@pytest.fixture
def guarded(session: StoreSession) -> Client:
    return Client(build_app(session, OPEN))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": "Bearer"},
        {"Cookie": "remnant-1=wrong"},
        {"Cookie": f"remnant-2={TOKEN}"},
        {"Cookie": "]=\x01"},
    ],
)
def test_without_the_token_nothing_is_answered(guarded: Client, headers: dict[str, str]) -> None:
    for path in ("/", "/docs", "/openapi.json", "/api/store", "/?token=wrong", "/nowhere"):
        answer = guarded("GET", path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "stripes" not in answer.text
    assert guarded("DELETE", "/api/classes/a", headers=headers).status_code == 401


def test_the_token_works_as_header_and_as_cookie(guarded: Client) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded("GET", "/api/store", headers=bearer).status_code == 200
    answer = guarded("GET", f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    given = {"Cookie": cookie.partition(";")[0]}
    assert guarded("GET", "/", headers=given).status_code == 200
    assert guarded("DELETE", "/api/classes/nobody", headers=given).status_code == 404


@pytest.mark.parametrize("other", ['prefs={"a":1}', "]=\x01", "a=b,c", "lonely", 'quote="'])
def test_an_odd_cookie_of_another_program_locks_nobody_out(guarded: Client, other: str) -> None:
    for cookies in (f"{other}; remnant-1={TOKEN}", f"remnant-1={TOKEN}; {other}"):
        assert guarded("GET", "/api/store", headers={"Cookie": cookies}).status_code == 200


def test_a_token_in_another_address_is_ignored(guarded: Client) -> None:
    assert guarded("GET", f"/api/store?token={TOKEN}").status_code == 401


@pytest.mark.parametrize("token", ["", "short", "x" * 15, "x" * 15 + "?", "é" * 20, "a b" * 10])
def test_weak_tokens_are_refused(token: str) -> None:
    with pytest.raises(InputError, match="a token must have 16 or more"):
        server._check_token(token)
    server._check_token(TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    with server._listen(host, 0) as listener:
        address = server._describe(listener, host, None)
        assert address.is_loopback
        assert address.url == f"http://{host}:{listener.getsockname()[1]}/"


def test_a_server_that_others_can_reach_gets_a_random_token() -> None:
    with server._listen("0.0.0.0", 0) as listener:
        first, second = (server._describe(listener, "0.0.0.0", None) for _ in range(2))
        assert not first.is_loopback
        assert first.token != second.token
        server._check_token(first.token or "")
        assert first.url.startswith(f"http://127.0.0.1:{first.port}/?token={first.token}")
        assert server._describe(listener, "0.0.0.0", TOKEN).token == TOKEN


# ------------------------------------------------------------------------------------------ proxies


def test_behind_a_proxy_its_name_is_accepted_with_the_token(session: StoreSession) -> None:
    name = "store.example.org"
    rules = Rules(token=TOKEN, proxied_as=name)
    assert rules.accepts_host(name)
    assert not rules.accepts_host(f"x.{name}")
    assert not Rules().accepts_host(name)
    client = Client(build_app(session, rules))
    headers = {"Host": name, "Origin": f"https://{name}", "Authorization": f"Bearer {TOKEN}"}
    assert client("POST", "/api/undo", headers=headers).status_code == 409  # nothing to undo
    foreign = headers | {"Origin": "https://example.org"}
    assert client("POST", "/api/undo", headers=foreign).status_code == 403
    cookie = client("GET", f"/?token={TOKEN}", headers={"Host": name}).headers["set-cookie"]
    assert "Secure" in cookie


def test_a_server_behind_a_proxy_needs_a_token() -> None:
    with server._listen("127.0.0.1", 0) as listener:
        address = server._describe(listener, "127.0.0.1", None, "store.example.org")
    assert address.url == f"https://store.example.org/?token={address.token}"
    server._check_token(address.token or "")


# -------------------------------------------------------------------------------------------- sizes


def test_a_body_with_a_large_content_length_is_not_read(session: StoreSession) -> None:
    client = Client(build_app(session, Rules(request_bytes=1000)))
    answer = client("POST", "/api/predict", files={"image": ("x.png", bytes(2000))})
    assert answer.status_code == 413
    assert "fewer or smaller images" in answer.json()["error"]


def test_a_body_without_content_length_is_counted(session: StoreSession) -> None:
    app, sent = build_app(session, Rules(request_bytes=100_000)), []
    head = b'--b\r\nContent-Disposition: form-data; name="image"; filename="x"\r\n\r\n'

    async def body() -> Any:
        yield head
        for _ in range(1000):
            sent.append(1)
            yield bytes(10_000)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=ADDRESS
        ) as client:
            headers = {"Content-Type": "multipart/form-data; boundary=b"}
            return await client.post("/api/predict", content=body(), headers=headers)

    answer = asyncio.run(ask())
    assert answer.status_code == 413
    assert len(sent) < 20
