"""What every page has: its templates, its pictures and its rules."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from remnant.reports.units import bytes_text, count_text, decibels_text, percent_text, seconds_text

_MAX_NAMES = 10


@dataclass(frozen=True)
class Picture:
    """A picture of a page, with its words."""

    name: str
    title: str
    caption: str
    svg: Markup | None = None
    address: str | None = None  # of a raster
    path: str = ""  # shown where the picture is too large to be part of the page


def render_page(template: str, **values: Any) -> str:
    """A page from a template; all text in `values` is escaped."""
    script = resources.files("remnant.reports").joinpath("templates/copy.js").read_text()
    # The only script that a browser will run is ours, whatever a run folder may contain.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    values |= {"script": Markup(script), "script_hash": f"sha256-{digest}"}
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("remnant.reports"), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "percent": percent_text,
        "bytes": bytes_text,
        "seconds": seconds_text,
        "decibels": decibels_text,
        "amount": count_text,
        "listed": names_text,
    }
    return environment.get_template(template).render(**values)


def names_text(names: Sequence[str]) -> str:
    """Names one after the other; of more than a dozen the first ten."""
    if len(names) <= _MAX_NAMES + 2:
        return ", ".join(names)
    return f"{', '.join(names[:_MAX_NAMES])} and {len(names) - _MAX_NAMES:,} more"


def value_text(value: Any) -> str:
    """A setting as it would be typed."""
    return value if isinstance(value, str) else json.dumps(value)
