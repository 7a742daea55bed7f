"""A page and a JSON API around one store, for a browser on the same machine."""

from __future__ import annotations

from remnant.serving.app import build_app
from remnant.serving.server import Address, serve
from remnant.serving.store_session import ServedStore

__all__ = ["Address", "ServedStore", "build_app", "serve"]
