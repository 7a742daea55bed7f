"""The app: API, pages and guard put together, and the status of every error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from remnant._version import __version__
from remnant.errors import InputError
from remnant.serving import pages, routes
from remnant.serving.guard import Guard, Rules, refuse
from remnant.serving.jobs import ConflictError
from remnant.serving.store_session import ServedStore, UnknownError, UnreadableError
from remnant.serving.uploads import TooLargeError

# The first that fits; whatever else a user can mend is 422.
_STATUSES = {UnknownError: 404, ConflictError: 409, TooLargeError: 413, UnreadableError: 503}
# By pydantic's name of the error; for all others its own words do.
_MUSTS = {
    "missing": " must be given; it is missing or empty",
    "value_error": " must be a file; got text",
}
_SENTENCES = {
    404: "there is nothing at this address. See /docs.",
    405: "this address takes other methods. See /docs.",
}


def build_app(store: ServedStore, rules: Rules) -> FastAPI:
    """The app around a store, which it closes when it ends."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(store.close)

    app = FastAPI(
        title="remnant",
        version=__version__,
        description=f"{store.name}: ask it, teach it, see what it remembers.",
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
        # The pages that FastAPI offers load scripts from elsewhere; ours is at /docs.
        docs_url=None,
        redoc_url=None,
    )
    app.state.store = store
    app.include_router(routes.router)
    app.include_router(pages.router)
    app.add_exception_handler(InputError, _explain_input)
    app.add_exception_handler(RequestValidationError, _explain_request)
    app.add_exception_handler(HTTPException, _explain_status)
    app.add_exception_handler(Exception, _explain_surprise)
    app.add_middleware(Guard, rules=rules)
    return app


async def _explain_input(_: Request, error: Exception) -> Response:
    status = next((number for kind, number in _STATUSES.items() if isinstance(error, kind)), 422)
    return refuse(status, str(error))


async def _explain_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or "the body"
    said = f": {first['msg'][0].lower()}{first['msg'][1:]}"
    return refuse(422, f"{place}{_MUSTS.get(first['type'], said)}. See /docs.")


async def _explain_status(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = _SENTENCES.get(error.status_code, str(error.detail))
    return refuse(error.status_code, sentence, error.headers)


async def _explain_surprise(_: Request, error: Exception) -> Response:
    """For errors of our own, which uvicorn logs."""
    return refuse(500, f"the server failed ({type(error).__name__}). See its log.")
