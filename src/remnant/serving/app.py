"""The FastAPI app: routes, pages, request guard, and an HTTP status for every error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from remnant._version import __version__
from remnant.errors import InputError
from remnant.serving import pages, routes
from remnant.serving.connections import Deadlines
from remnant.serving.guard import Guard, Rules, error_response
from remnant.serving.jobs import ConflictError
from remnant.serving.store_session import StoreSession, UnreadableError
from remnant.serving.store_version import NotFoundError
from remnant.serving.uploads import TooLargeError

# The first match counts; any other InputError is a 422.
_STATUSES = {NotFoundError: 404, ConflictError: 409, TooLargeError: 413, UnreadableError: 503}
# By pydantic's error type; all other types keep pydantic's message.
_MUSTS = {
    "missing": " must be given; it is missing or empty",
    "value_error": " must be a file; got text",
}
_SENTENCES = {
    404: "there is nothing at this address. See /docs.",
    405: "this address does not support this method. See /docs.",
}


def build_app(session: StoreSession, rules: Rules) -> FastAPI:
    """The app for a store; closes the session when it shuts down."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # A thread for every connection, so that those who wait for memory keep nobody else waiting.
        current_default_thread_limiter().total_tokens = Deadlines().connections
        yield
        await run_in_threadpool(session.close)

    app = FastAPI(
        title="remnant",
        version=__version__,
        description=f"Predict with {session.name}, teach it classes, and browse its exemplars.",
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
        # FastAPI's own documentation pages load scripts from a CDN; ours is at /docs.
        docs_url=None,
        redoc_url=None,
    )
    app.state.session = session
    app.include_router(routes.router)
    app.include_router(pages.router)
    app.add_exception_handler(InputError, _input_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _internal_error)
    app.add_middleware(Guard, rules=rules)
    return app


async def _input_error(_: Request, error: Exception) -> Response:
    status = next((number for kind, number in _STATUSES.items() if isinstance(error, kind)), 422)
    return error_response(status, str(error))


async def _validation_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:]) or "the body"
    message = f": {first['msg'][0].lower()}{first['msg'][1:]}"
    return error_response(422, f"{field}{_MUSTS.get(first['type'], message)}. See /docs.")


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, OSError):  # large uploads pass through the temporary folder
        return error_response(507, f"the upload could not be held ({error.__cause__.strerror}).")
    sentence = _SENTENCES.get(error.status_code, str(error.detail))
    return error_response(error.status_code, sentence, error.headers)


async def _internal_error(_: Request, error: Exception) -> Response:
    """For bugs; uvicorn logs the traceback."""
    return error_response(500, f"internal server error ({type(error).__name__}). See its log.")
