"""Connections with deadlines: nobody keeps the server from others by sending or reading slowly.

A request has three stages: its head arrives, its body arrives, its answer is made and read. Each
has a deadline. When all connections are taken, the one that has kept the server waiting longest for
a head or a body gives way to a new one: honest clients send both at once. Those that have had an
answer come last, so that a flood of new ones does not end them.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

Stage = Literal["head", "body", "answer"]


@dataclass(frozen=True)
class Deadlines:
    """Seconds that each stage of a request may take, and how many connections there may be."""

    connections: int = 64  # Chosen: a browser opens six
    head: float = 10.0
    body: float = 30.0  # and one more second for each `body_rate` bytes that have arrived
    body_rate: int = 64 << 10
    answer: float = 600.0  # Chosen: 500 images are scored in this time on a slow machine
    reading: float = 30.0  # in which a client must take some of its answer
    refusal: float = 0.1  # by which an error of the client is answered later than it could be
    check_every: float = 1.0


class LimitedConnection(H11Protocol):
    """One connection; ends itself when a deadline has passed."""

    deadlines = Deadlines()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._since = self._resumed = self.loop.time()
        self._stage_seen: tuple[Stage, int] = ("head", id(None))
        self._num_received = 0
        self._has_had_answer = False
        self._timer: asyncio.TimerHandle | None = None
        self._refusal: asyncio.TimerHandle | None = None

    @property
    def waited(self) -> float | None:
        """Seconds for which the server has waited for a head or a body; None: it has both.

        The time in which an honest client would have sent what has arrived of a body is no waiting.
        """
        stage = self._stage()
        if stage == "answer":
            return None
        sent = self._num_received / self.deadlines.body_rate if stage == "body" else 0.0
        return self.loop.time() - self._since - sent

    # ----------------------------------------------------------- asyncio's protocol interface

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore
        if len(self.connections) >= self.deadlines.connections and not self._make_room():
            transport.write(_response(503, "the server has too many connections. Try again later."))
            transport.close()
            self.transport = transport
            return
        super().connection_made(transport)
        self._timer = self.loop.call_later(self.deadlines.check_every, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._refusal):
            if timer is not None:
                timer.cancel()
        if self.flow is not None:  # else it was never taken
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.flow is None or self._refusal is not None:
            return
        self._num_received += len(data)
        super().data_received(data)
        self._note_stage()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._has_had_answer = True
        self._note_stage()

    def send_400_response(self, msg: str) -> None:
        """Nonsense: answered once, by this or by the app, whichever comes first."""
        self._refusal = self.loop.call_later(self.deadlines.refusal, self._refuse, msg)

    def _refuse(self, msg: str) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # the app has nobody to answer any more
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        self._resumed = self.loop.time()
        super().pause_writing()

    # ------------------------------------------------------------------------------ deadlines

    def _stage(self) -> Stage:
        if self.cycle is None or self.cycle.response_complete:
            return "head"
        return "body" if self.cycle.more_body else "answer"

    def _note_stage(self) -> None:
        """Remember when the present stage began."""
        stage = self._stage(), id(self.cycle)
        if stage != self._stage_seen:
            self._stage_seen = stage
            self._since = self.loop.time()
            self._num_received = 0

    def _check(self) -> None:
        self._note_stage()
        self._timer = self.loop.call_later(self.deadlines.check_every, self._check)
        now, limits, stage = self.loop.time(), self.deadlines, self._stage()
        allowed = {
            "head": limits.head,
            "body": limits.body + self._num_received / limits.body_rate,
            "answer": limits.answer,
        }[stage]
        is_unread = self.flow.write_paused and now - self._resumed > limits.reading
        if now - self._since > allowed or is_unread:
            self._end(stage)

    def _end(self, stage: Stage) -> None:
        """Say why, if the client has begun a request that is not being answered; then hang up."""
        is_idle = stage == "head" and self._num_received == 0
        if stage == "answer" or is_idle or self.transport.is_closing():
            self.transport.abort()
            return
        self.transport.write(_response(408, f"the {stage} of the request took too long."))
        self.transport.close()

    def _make_room(self) -> bool:
        """End the connection that the server has waited for longest; whether there is one."""
        waiting = [
            (not one._has_had_answer, one.waited, id(one), one)
            for one in self.connections
            if isinstance(one, LimitedConnection) and one.waited is not None
        ]
        if not waiting:
            return False
        longest = max(waiting)[-1]
        self.connections.discard(longest)  # at once: others may come before it is lost
        longest.transport.abort()
        return True


def _response(status: int, sentence: str) -> bytes:
    body = json.dumps({"error": sentence}).encode()
    reason = {408: "Request Timeout", 503: "Service Unavailable"}[status]
    head = (
        f"HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
