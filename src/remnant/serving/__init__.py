"""A web page and a JSON API for one store."""

from __future__ import annotations

from remnant.serving.app import build_app
from remnant.serving.server import Address, serve
from remnant.serving.store_session import StoreSession

__all__ = ["Address", "StoreSession", "build_app", "serve"]
