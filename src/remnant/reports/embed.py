"""Pictures made part of a page: SVG inline and harmless, the others as data addresses."""

from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
from markupsafe import Markup
from PIL import Image

from remnant.errors import InputError

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_MAX_PIXELS = 50_000_000  # of a picture that a run folder holds
MAX_SIDE = 128  # px; larger images are shown smaller, so that a page stays below 3 MB

_SVG = "http://www.w3.org/2000/svg"
_HREFS = ("href", "{http://www.w3.org/1999/xlink}href")
_HARMLESS = {
    "svg", "g", "defs", "symbol", "use", "title", "desc", "path", "rect", "line", "circle",
    "ellipse", "polyline", "polygon", "text", "tspan", "image", "clipPath", "mask", "pattern",
    "marker", "linearGradient", "radialGradient", "stop",
}  # fmt: skip
_REFERENCE = re.compile(r"url\(\s*['\"]?#([^'\")]+)['\"]?\s*\)")
_MIME_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}


def inline_svg(content: bytes, name: str, label: str) -> Markup:
    """An SVG as an element of a page, described by `label` for those who cannot see it.

    Scripts, styles and whatever else could reach beyond the picture are left out. `name`
    makes its ids its own, since a page has many pictures.
    """
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError:
        raise InputError(
            f"figures/{name}.svg must be an SVG picture; it is damaged. Delete it and report again."
        ) from None
    _strip(root, prefix=f"{name}-")
    for side in ("width", "height"):
        root.attrib.pop(side, None)  # the page decides
    root.set("role", "img")
    root.set("aria-label", label)
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _strip(element: ElementTree.Element, prefix: str) -> None:
    for child in list(element):
        if isinstance(child.tag, str) and child.tag.removeprefix(f"{{{_SVG}}}") in _HARMLESS:
            _strip(child, prefix)
        else:
            element.remove(child)
    for name, value in list(element.attrib.items()):
        if name in _HREFS:
            if value.startswith("#"):
                element.set(name, f"#{prefix}{value[1:]}")
            elif not value.startswith(("data:image/png", "data:image/jpeg", "data:image/webp")):
                del element.attrib[name]
        elif name.lower().startswith("on"):
            del element.attrib[name]
        elif name == "id":
            element.set(name, prefix + value)
        elif "url(" in _REFERENCE.sub("", value).lower():
            del element.attrib[name]  # refers to something outside the picture
        else:
            element.set(name, _REFERENCE.sub(rf"url(#{prefix}\1)", value))


def raster_address(path: Path, max_bytes: int) -> str:
    """A PNG as a data address; one above `max_bytes` is coded smaller, then made smaller."""
    content = path.read_bytes()
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as opened:
            if opened.width * opened.height > _MAX_PIXELS:
                raise ValueError("too many pixels")
            kind, picture = opened.format or "", opened.convert("RGBA")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise InputError(
            f"{path} must be a picture; it is damaged. Delete it and report again."
        ) from None
    while (len(content) > max_bytes and picture.width > 64) or kind not in _MIME_TYPES:
        buffer = io.BytesIO()
        picture.save(buffer, format="WEBP", quality=80)
        kind, content = "WEBP", buffer.getvalue()
        picture = picture.resize((max(1, picture.width * 3 // 4), max(1, picture.height * 3 // 4)))
    return f"data:{_MIME_TYPES[kind]};base64,{base64.b64encode(content).decode()}"


def image_address(image: np.ndarray) -> str:
    """An image as a data address: its very pixels, or smaller and slightly coded if it is large."""
    picture, buffer = Image.fromarray(image), io.BytesIO()
    if max(picture.size) <= MAX_SIDE:
        picture.save(buffer, format="PNG", optimize=True)
        kind = "png"
    else:
        picture.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.BOX)
        picture.save(buffer, format="WEBP", quality=90)
        kind = "webp"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
