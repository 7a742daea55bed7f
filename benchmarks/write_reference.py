"""Write docs/reference and the schema files of the package: `python -m benchmarks.write_reference`.

All of it is made from the code: configs with the comments beside their fields, commands, methods,
codecs, files and the OpenAPI document of the server. A test fails when a page is not what the code
says.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.reference.codec_page import codecs_page
from benchmarks.reference.command_page import commands_page
from benchmarks.reference.file_page import files_page
from benchmarks.reference.http_page import http_page
from benchmarks.reference.method_page import methods_page
from benchmarks.reference.schema_files import schema_files
from benchmarks.reference.setting_page import settings_page

ROOT = Path(__file__).parents[1]
PAGES = {
    "codecs.md": codecs_page,
    "commands.md": commands_page,
    "files.md": files_page,
    "http.md": http_page,
    "methods.md": methods_page,
    "settings.md": settings_page,
}
_MADE = "<!-- Made from the code by python -m benchmarks.write_reference; edit that instead. -->\n"


def documents() -> dict[Path, str]:
    """Every file and what it must hold."""
    pages = {ROOT / "docs" / "reference" / name: make() + "\n" + _MADE
             for name, make in PAGES.items()}  # fmt: skip
    schemas = {ROOT / "src" / "remnant" / "schemas" / f"{name}.json": text
               for name, text in schema_files().items()}  # fmt: skip
    return pages | schemas


def main() -> None:
    for path, text in documents().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
