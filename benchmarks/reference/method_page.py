"""docs/reference/methods.md: a card for every method."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.reference.recipe_index import recipe_index
from benchmarks.reference.setting_page import links_from
from benchmarks.reference.setting_tables import first_line, setting_tables, table
from remnant.methods import METHODS, Method, MethodConfig

# The page of a method that has none of its own name.
_PAGES = {"ncm": "ranpac"}
_FOLDER = Path(__file__).parents[2] / "docs" / "methods"
_MANY = 12  # recipes, from which on they are folded away
_WORK = re.compile(r"\[([\w+-]+)\] ([A-Z][^\[\]]*?\b(?:19|20)\d\d)\b")
_KEPT = re.compile(r'KeptTensors(?:\.of)?\(\s*"(\w+)"')
_INTRO = """# All methods

What `remnant list methods` lists. Every method also has the settings `method.first` and
`method.later`, which say how long and how it [trains](settings.md#schedule), and works with every
[codec](codecs.md) unless its card says otherwise. Kept is what a method carries from task to task
beside its network; `remnant show RECIPE` counts its bytes.
"""


def methods_page() -> str:
    rows = [
        (f"[`{name}`](#{name})", _idea(method), ", ".join(_kept(method)), _link(name))
        for name, method in METHODS.items()
    ]
    head = ("method", "idea", "keeps", "page")
    cards = [_card(name, method) for name, method in METHODS.items()]
    return "\n".join([_INTRO, table(head, rows), *cards])


def _card(name: str, method: type[Method[Any]]) -> str:
    facts = [
        f"- **Paper**: {_papers(method) or 'none; a baseline'}",
        f"- **Keeps**: {', '.join(_kept(method))}",
        *(f"- {fact}" for fact in _facts(method)),
        *(f"- {departure}" for departure in _departures(method)),
        *([f"- **Page**: {_link(name)}"] if _link(name) else []),
        f"- **Code**: `{_source(method)}`",
    ]
    config = method.Config
    common = tuple(MethodConfig.model_fields)
    has_own = any(field not in common for field in config.model_fields)
    said = first_line(config) if config.__doc__ and "Defaults" in first_line(config) else ""
    tables = setting_tables(config, "method.", links_from("methods.md"), leave_out=common)
    return "\n\n".join(filter(None, (
        f"## {name}", _idea(method), "\n".join(facts), said,
        tables.rstrip() if has_own else "It has no settings of its own.", _recipes(name),
    ))) + "\n"  # fmt: skip


def _document(method: type[Method[Any]]) -> str:
    return inspect.cleandoc(sys.modules[method.__module__].__doc__ or "")


def _idea(method: type[Method[Any]]) -> str:
    return _document(method).partition("\n")[0]


def _papers(method: type[Method[Any]]) -> str:
    found = _WORK.findall(re.sub(r"\s+", " ", _document(method)))
    return "; ".join(f"[{key}] {work}" for key, work in found)


def _departures(method: type[Method[Any]]) -> list[str]:
    text = re.sub(r"\s+", " ", _document(method).replace("\n\n", "\n#"))
    found = [part.partition("#")[0].strip() for part in text.split("Departs from ")[1:]]
    return [f"**Departs from** {part}" for part in found]


def _kept(method: type[Method[Any]]) -> list[str]:
    """By the code of `kept`, and of those that it extends."""
    found = ["exemplars"] if method.uses_memory else []
    for owner in method.__mro__:
        if "kept" in vars(owner) and owner is not Method:
            source = inspect.getsource(vars(owner)["kept"])
            found += [one.replace("_", " ") for one in _KEPT.findall(source)]
            found += ["a second classifier"] if "unused_head" in source else []
    return list(dict.fromkeys(found)) or ["nothing"]


def _facts(method: type[Method[Any]]) -> list[str]:
    said = {
        "**Trains nothing**: each task is learned in closed form": not method.trains,
        "**Learns all classes at once**: an upper bound, not a method": method.learns_once,
        "**Takes more images of known classes** in a later task": method.takes_known_classes,
        "**Forgets exactly**: without a class it is as if that had never been seen":
            method.forgets_exactly,
        f"**Needs the codec** [`{method.needs_codec}`](codecs.md#{method.needs_codec})":
            method.needs_codec is not None,
    }  # fmt: skip
    return [text for text, holds in said.items() if holds]


def _link(name: str) -> str:
    page = _PAGES.get(name, name)
    return f"[{page}](../methods/{page}.md)" if (_FOLDER / f"{page}.md").exists() else ""


def _source(method: type[Method[Any]]) -> str:
    return f"src/{method.__module__.replace('.', '/')}.py"


def _recipes(name: str) -> str:
    names = [entry.recipe for entry in recipe_index() if entry.method == name]
    text = ", ".join(f"`{one}`" for one in names)
    if len(names) < _MANY:
        return f"Recipes: {text}."
    return f"<details markdown><summary>{len(names)} recipes</summary>\n\n{text}\n\n</details>"
