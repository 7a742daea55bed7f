"""Forms with no more parts than an address can use.

A form is read where all requests are dispatched: while it is, nobody else is served.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from remnant.serving.uploads import LIMITS

_OF_MANY = ("/api/teach", "/api/score")  # take many images, and a name for each
_FEW = 10  # parts that any other form may have
_FIELD_BYTES = 4 * LIMITS.name_characters + 1000  # of a name in UTF-8, and some spaces


class _LimitedForm(Request):
    def form(self, **_: Any) -> Any:
        most = LIMITS.images + _FEW if self.url.path in _OF_MANY else _FEW
        return super().form(max_files=most, max_fields=most, max_part_size=_FIELD_BYTES)


class FormRoute(APIRoute):
    """A route whose forms are limited."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_limited(request: Request) -> Response:
            return await handle(_LimitedForm(request.scope, request.receive))

        return handle_limited
