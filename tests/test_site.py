"""`make docs` fails for a broken link, a page without a place, and what needs a network."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks.check_site import ROOT, _misplaced, problems
from tests.support.browser import chromium  # noqa: F401


def build(root: Path, pages: dict[str, str], nav: str) -> list[str]:
    """The problems of a site with these pages."""
    (root / "docs").mkdir(parents=True)
    for name, text in pages.items():
        (root / "docs" / name).write_text(text)
    (root / "zensical.toml").write_text(
        f'[project]\nsite_name = "site"\nnav = {nav}\n[project.theme]\nfont = false\n'
        '[project.plugins.offline]\n[project.extra]\npolyfills = ["iframe-worker.js"]\n'
    )
    (root / "docs" / "iframe-worker.js").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return problems(root)


def test_a_sound_site_has_no_problem_and_each_planted_one_is_named(tmp_path: Path) -> None:
    sound = {"index.md": "# One\n\n[two](two.md#there)\n", "two.md": "# Two\n\n## There\n"}
    nav = '["index.md", { "Second" = ["two.md"] }]'
    assert build(tmp_path / "sound", sound, nav) == []

    planted = sound | {
        "two.md": "# Two\n\n![gone](gone.png) [away](../../README.md) [file](gone.json)\n\n"
        "## There\n\n<a href='index.html#nowhere'>x</a> <img src='https://cdn.test/x.png'>\n",
        "orphan.md": "# Orphan\n",
    }
    found = "\n".join(build(tmp_path / "planted", planted, nav))
    assert "docs/orphan.md is in no section" in found
    assert "two.html leads to gone.png, which does not exist" in found
    assert "two.html leads to gone.json, which does not exist" in found
    assert "two.html leads out of the site, to ../../" in found
    assert "there is no such place" in found
    assert "two.html loads https://cdn.test/x.png" in found
    assert len(found.splitlines()) == 6


def test_every_page_of_the_documents_has_one_place() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert list(_misplaced(nav, ROOT / "docs")) == []


@pytest.mark.slow
@pytest.mark.browser
def test_the_site_works_from_disk_in_light_and_dark_at_any_width(
    chromium: object,  # noqa: F811
) -> None:
    """Search answers, nothing is fetched, and no page is wider than the screen."""
    subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=ROOT, check=True)
    assert problems(ROOT) == []
    fetched: list[str] = []
    for scheme in ("light", "dark"):
        for width in (1280, 390):
            page = chromium.new_page(  # pyright: ignore
                viewport={"width": width, "height": 900}, color_scheme=scheme
            )
            page.on("request", lambda one: fetched.append(one.url))
            for name in ("index", "methods/bimae", "reference/settings", "results"):
                page.goto((ROOT / "build" / "site" / f"{name}.html").as_uri())
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                shown = page.evaluate("document.body.getAttribute('data-md-color-scheme')")
                assert shown == {"light": "default", "dark": "slate"}[scheme]
            page.keyboard.press("Control+k")
            page.wait_for_timeout(500)  # until the field has the focus
            page.keyboard.type("herding", delay=20)
            page.get_by_text(re.compile(r"\d+ results?")).first.wait_for()
            page.close()
    assert [url for url in fetched if not url.startswith(("file:", "data:", "blob:"))] == []
