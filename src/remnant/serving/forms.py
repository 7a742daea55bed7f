"""Forms with no more parts than an address can use, and with text in UTF-8.

A form is read where all requests are dispatched: while it is, nobody else is served.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser

from remnant.serving.uploads import LIMITS

_OF_MANY = ("/api/teach", "/api/score")  # take many images, and a name for each
_FEW = 10  # parts that any other form may have
_FIELD_BYTES = 4 * LIMITS.name_characters + 1000  # of a name in UTF-8, and some spaces


class _Utf8Parser(MultiPartParser):
    """Refuses what is not UTF-8, where Starlette would take it for Latin-1."""

    def on_part_end(self) -> None:
        if self._current_part.file is None:
            try:
                self._current_part.data.decode("utf-8")
            except UnicodeDecodeError:
                raise MultiPartException("text in a form must be UTF-8; got other bytes.") from None
        super().on_part_end()


class _LimitedForm(Request):
    async def form(self, **_: Any) -> FormData:  # pyright: ignore
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if self._form is not None or kind != "multipart/form-data":
            return self._form or FormData()
        most = LIMITS.images + _FEW if self.url.path in _OF_MANY else _FEW
        async with aclosing(self.stream()) as stream:
            parser = _Utf8Parser(
                self.headers, stream, max_files=most, max_fields=most, max_part_size=_FIELD_BYTES
            )
            try:
                self._form = await parser.parse()
            except MultiPartException as error:
                raise HTTPException(400, error.message) from error
        return self._form


class FormRoute(APIRoute):
    """A route whose forms are limited."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_limited(request: Request) -> Response:
            return await handle(_LimitedForm(request.scope, request.receive))

        return handle_limited
