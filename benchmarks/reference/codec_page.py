"""docs/reference/codecs.md: a card for every codec."""

from __future__ import annotations

import json

from benchmarks.reference.recipe_index import recipe_index
from benchmarks.reference.setting_page import links_from
from benchmarks.reference.setting_tables import first_line, setting_tables, table
from remnant.memory import CODECS, Codec
from remnant.methods import METHODS

_INTRO = """# All codecs

What `remnant list codecs` lists: the forms in which an exemplar can be stored. How many bytes each
takes, and what it loses, is [measured](../codecs.md); `remnant plan --dataset D --budget B`
measures it on your images.

## Settings

A codec is chosen by its name alone, `--set memory.codec=webp`, or with settings of its own, `--set
memory.codec.name=webp --set memory.codec.quality=30`.
"""


def codecs_page() -> str:
    rows = [
        (f"[`{name}`](#{name})", first_line(codec.Config), _gives_back(codec))
        for name, codec in CODECS.items()
    ]
    cards = [_card(name, codec) for name, codec in CODECS.items()]
    return "\n".join([_INTRO, table(("codec", "stores", "gives back"), rows), *cards])


def _card(name: str, codec: type[Codec]) -> str:
    users = [one for one, method in METHODS.items() if method.needs_codec == name]
    presets = dict.fromkeys(entry.preset for entry in recipe_index() if entry.codec == name)
    facts = [f"- **Gives back**: {_gives_back(codec)}"]
    facts += [f"- **Needed by**: {_names(users)}"] if users else []
    facts += [f"- **Presets that use it**: {_names(presets)}"] if presets else []
    tried = [json.dumps(dict(settings)) for settings in codec.trial_settings if settings]
    facts += [f"- **`remnant plan` tries**: {_names(tried)}"] if tried else []
    facts += [f"- **Code**: `src/{codec.__module__.replace('.', '/')}.py`"]
    has_own = len(codec.Config.model_fields) > 1
    tables = setting_tables(
        codec.Config, "memory.codec.", links_from("codecs.md"), leave_out=("name",)
    ).rstrip()
    parts = (f"## {name}", first_line(codec.Config), "\n".join(facts),
             tables if has_own else "It has no settings.")  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _gives_back(codec: type[Codec]) -> str:
    return "some of the patches" if codec.is_partial else "whole images"


def _names(names: object) -> str:
    return ", ".join(f"`{one}`" for one in names)  # pyright: ignore
