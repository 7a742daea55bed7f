"""README and the story: small pictures, numbers of the runs; links of all pages lead somewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.write_story import fill_verdicts

ROOT = Path(__file__).parents[1]
STORY = ROOT / "docs" / "story.md"
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*/*.md"))]
MOST_BYTES = 80_000  # of a picture


def links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    return re.findall(r"\]\((?!https?:)([^)\s]+)\)", text)


def anchors(page: Path) -> set[str]:
    """What a heading is called in a link, as GitHub makes it."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_verdicts_are_those_of_the_runs() -> None:
    text = STORY.read_text()
    assert fill_verdicts(text) == text, "run python -m benchmarks.write_story"


@pytest.mark.parametrize("page", [README, STORY], ids=lambda page: page.name)
def test_pictures_are_small(page: Path) -> None:
    pictures = re.findall(r"!\[[^\]]+\]\((.*?)\)", page.read_text())
    assert pictures
    for picture in pictures:
        assert (page.parent / picture).stat().st_size < MOST_BYTES


@pytest.mark.parametrize("page", [README, STORY], ids=lambda page: page.name)
def test_an_accuracy_beside_a_run_is_that_of_the_run(page: Path) -> None:
    """`[39.1 %](.../runs/NAME/result.json)` is the accuracy after the last task of that run."""
    found = re.findall(r"\[([\d.]+) %\]\((\S*runs/\S*/result\.json)\)", page.read_text())
    for number, path in found:
        result = json.loads((page.parent / path).read_bytes())
        assert f"{result['last_accuracy']:.1f}" == number


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) < 150
