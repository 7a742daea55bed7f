"""Check the site that zensical has built: `python benchmarks/check_site.py [FOLDER]`.

zensical's strict mode looks at links between Markdown files and at their anchors. What it lets pass
fails here: a page that the navigation does not name, or names twice; a link or picture that leads
to a file which is not there or lies outside the site; an anchor that is not on its page; and a
script, style or picture from another host, since the site must work without a network.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
_LOADED = {"script", "img", "iframe", "source", "video", "audio", "embed"}  # with a `src`


class _Page(HTMLParser):
    """The ids of a page, where its links lead, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := values.get(name))}
        if tag == "a" and (href := values.get("href")):
            self.links.append(href)
        elif tag == "link" and (href := values.get("href")):
            self.loads.append(href)
        elif tag in _LOADED and (source := values.get("src")):
            self.loads.append(source)


def problems(root: Path) -> list[str]:
    """What is wrong with the site of the project at `root`, a sentence each."""
    config = tomllib.loads((root / "zensical.toml").read_text())["project"]
    docs = root / config.get("docs_dir", "docs")
    site = root / config.get("site_dir", "site")
    return [*_misplaced(config["nav"], docs), *_broken(site)]


def _misplaced(nav: list[Any], docs: Path) -> Iterator[str]:
    named = Counter(_pages_in(nav))
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    for page in sorted(pages - set(named)):
        yield f"docs/{page} is in no section: give it a place in the nav of zensical.toml."
    for page in sorted(set(named) - pages):
        yield f"zensical.toml names docs/{page}, which does not exist."
    for page in sorted(page for page, count in named.items() if count > 1):
        yield f"zensical.toml names docs/{page} more than once."


def _pages_in(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
        return
    for entry in nav.values() if isinstance(nav, dict) else nav:
        yield from _pages_in(entry)


def _broken(site: Path) -> Iterator[str]:
    @cache
    def read(path: Path) -> _Page:
        return _Page(path.read_text())

    for path in sorted(site.rglob("*.html")):
        page, name = read(path), path.relative_to(site)
        for link in dict.fromkeys([*page.links, *page.loads]):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    yield f"{name} loads {link}: without a network it is missing."
                continue
            place = unquote(parts.path)
            base = site if place.startswith("/") else path.parent  # 404.html is found anywhere
            target = (base / place.lstrip("/")).resolve() if place else path.resolve()
            if not target.is_relative_to(site.resolve()):
                yield f"{name} leads out of the site, to {link}."
            elif not target.exists():
                yield f"{name} leads to {link}, which does not exist."
            elif target.suffix == ".html" and unquote(parts.fragment) not in {
                "",
                *read(target).ids,
            }:
                yield f"{name} leads to {link}, but there is no such place on that page."


def main() -> None:
    found = problems(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    for sentence in found:
        print(sentence, file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
