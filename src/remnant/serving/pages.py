"""The web page, its style and script, and the page about the API; all served from here."""

from __future__ import annotations

from importlib import resources
from typing import Any

import jinja2
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("remnant.serving"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_SCRIPTS = (
    "ask", "camera", "check", "files", "groups", "memory", "parts", "serve", "store", "teach",
)  # fmt: skip
router = APIRouter(include_in_schema=False)


@router.get("/")
def index(request: Request) -> HTMLResponse:
    return _render("index.html.j2", name=request.app.state.session.name, scripts=_SCRIPTS)


@router.get("/docs")
def docs(request: Request) -> HTMLResponse:
    return _render("docs.html.j2", schema=request.app.openapi(), url=str(request.base_url))


@router.get("/page.css")
def style() -> Response:
    """The style of the reports, and what this page adds to it."""
    sheets = _read("remnant.reports", "page.css"), _read("remnant.serving", "serve.css")
    return Response("\n".join(sheets), media_type="text/css")


@router.get("/{name}.js")
def script(name: str) -> Response:
    """One of the page's modules; serve.js loads the others."""
    if name not in _SCRIPTS:
        raise HTTPException(404)
    return Response(_read("remnant.serving", f"{name}.js"), media_type="text/javascript")


def _render(template: str, **values: Any) -> HTMLResponse:
    return HTMLResponse(_TEMPLATES.get_template(template).render(**values))


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath("templates", name).read_text()
