"""Fill the tables of the documents from run folders: `python benchmarks/write_results.py RUNS`.

Every block between `<!-- runs: NAME ... -->` and `<!-- /runs -->` becomes the table of those runs,
`<!-- curves: NAME ... -->` their curves, `<!-- kept: NAME ... -->` their accuracy against all bytes
kept. What that needs of a run (config, environment, result) is copied to docs/runs, so that
`remnant report docs/runs/NAME ...` says the same for ever. A block that names a run which is not
to be found stays as it is.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from remnant.reports import curves_picture, kept_picture, markdown_table

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (DOCS / "results.md", *sorted((DOCS / "methods").glob("*.md")))
_PICTURES = {
    "curves": (curves_picture, "Accuracy after each task"),
    "kept": (kept_picture, "Average accuracy against bytes of memory and network"),
}
_FILES = ("config.json", "environment.json", "result.json")
_BLOCK = re.compile(r"(<!-- (runs|curves|kept): ([^>]*?) -->\n).*?(<!-- /\2 -->)", re.DOTALL)


def keep(runs: Path, name: str) -> Path:
    """The files of a run that its row needs, kept beside the documents."""
    kept = DOCS / "runs" / name
    if (runs / name / "result.json").exists():
        kept.mkdir(parents=True, exist_ok=True)
        for file in _FILES:
            shutil.copyfile(runs / name / file, kept / file)
    return kept


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    runs = Path(sys.argv[1])

    def fill(match: re.Match[str]) -> str:
        opening, kind, names, closing = match.groups()
        folders = [keep(runs, name) for name in names.split()]
        missing = [folder.name for folder in folders if not folder.exists()]
        if missing:
            print(f"left as it is, for want of {', '.join(missing)}")
            return match.group()
        if kind == "runs":
            return f"{opening}{markdown_table(folders)}{closing}"
        draw, title = _PICTURES[kind]
        picture = DOCS / "figures" / f"{folders[0].name}-{kind}.svg"
        picture.parent.mkdir(exist_ok=True)
        picture.write_text(draw(folders))
        return f"{opening}![{title}](figures/{picture.name})\n{closing}"

    for page in PAGES:
        page.write_text(_BLOCK.sub(fill, page.read_text()))


if __name__ == "__main__":
    main()
