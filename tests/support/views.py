"""A page as a browser shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class View:
    """A page open in the browser, with all that it said and asked for."""

    def __init__(self, browser: Any, place: Path | str, width: int, scheme: str) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(place if isinstance(place, str) else place.as_uri())

    def assert_sound(self, path: Path) -> None:
        assert self.messages == []
        others = [url for url in self.requests if not url.startswith("data:")]
        assert others == [path.as_uri()]
        self.assert_tidy()

    def assert_tidy(self) -> None:
        widths = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1], "the page scrolls sideways"
        repeated = self.page.evaluate(
            "(ids => ids.filter((id, i) => ids.indexOf(id) < i))"
            "([...document.querySelectorAll('[id]')].map(element => element.id))"
        )
        assert repeated == []

    def luminance(self, selector: str, name: str) -> float:
        """Of a computed colour, 0 (black) to 1 (white)."""
        color = self.page.eval_on_selector(
            selector, f"element => getComputedStyle(element).getPropertyValue('{name}')"
        )
        parts = color[color.index("(") + 1 : -1].replace(",", " ").split()[:3]
        return sum(float(part) for part in parts) / 3 / 255
