"""docs/reference/commands.md: every command with its help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from cyclopts import App

from benchmarks.reference.setting_tables import spell_type, table
from remnant.cli import app

_INTRO = """# Commands

What `remnant --help` and `remnant COMMAND --help` say, on one page. Every command exits with 0 if
all went well, and with 2 and one sentence on standard error if its input cannot be used. With
`--json`, standard output is one JSON document and everything else goes to standard error.
"""
_FEW = 4  # options that the usage line names


def commands_page() -> str:
    found = list(_walk(app, ()))
    rows = [(f"[`remnant {' '.join(chain)}`](#{_anchor(chain)})", _about(command)[0])
            for chain, command in found]  # fmt: skip
    cards = [_card(chain, command) for chain, command in found]
    return "\n".join([_INTRO, table(("command", "does"), rows), *cards])


def _walk(parent: App, chain: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], App]]:
    """The commands that can be typed; a group stands for those in it."""
    for name in parent:
        if not name.startswith("-"):
            command = parent[name]
            if command.default_command is not None:
                yield (*chain, name), command
            yield from _walk(command, (*chain, name))


def _anchor(chain: tuple[str, ...]) -> str:
    return "-".join(("remnant", *chain))


def _about(command: App) -> tuple[str, str, dict[str, str]]:
    """First line and rest of the help, and what it says of each parameter."""
    text = inspect.cleandoc(command.help or "")
    text, _, parameters = text.partition("Parameters\n----------\n")
    first, _, rest = text.partition("\n")
    found = re.findall(r"^(\w+)\n((?:    .*\n?|\n)+)", parameters, flags=re.MULTILINE)
    return first, rest.strip(), {name: re.sub(r"\s+", " ", about).strip() for name, about in found}


def _card(chain: tuple[str, ...], command: App) -> str:
    first, rest, parameters = _about(command)
    arguments = [one for one in command.assemble_argument_collection() if one.show]
    usage = " ".join(["remnant", *chain, *_usage(arguments)])
    rows = [_row(one, parameters) for one in arguments]
    options = table(("argument", "value", "default", "meaning"), rows).rstrip() if rows else ""
    parts = (f"## remnant {' '.join(chain)}", first, rest, f"```\n{usage}\n```", options)
    return "\n\n".join(filter(None, parts)) + "\n"


def _is_positional(argument: Any) -> bool:
    return not argument.name.startswith("-")


def _usage(arguments: list[Any]) -> list[str]:
    """What must be given, and the options by name if they are few."""
    optional = [one for one in arguments if not one.required and not _is_positional(one)]
    shown = [one for one in arguments if one not in optional or len(optional) <= _FEW]
    return [*map(_spell, shown), *(["[OPTIONS]"] if len(optional) > _FEW else [])]


def _spell(argument: Any) -> str:
    name = argument.name
    if _is_positional(argument):
        name = f"{name}..." if argument.field_info.kind.name == "VAR_POSITIONAL" else name
    elif argument.hint is not bool:
        name = f"{name} {name.strip('-').replace('-', '_').upper()}"
    return name if argument.required else f"[{name}]"


def _row(argument: Any, parameters: dict[str, str]) -> tuple[str, str, str, str]:
    about = argument.parameter.help or parameters.get(argument.field_info.name, "")
    default = argument.field_info.default
    is_flag = argument.hint is bool
    shown = "" if default in (None, inspect.Parameter.empty, "") or default is False else default
    value = "" if is_flag else re.sub(r", or none$", "", spell_type(argument.hint))
    return (f"`{argument.name}`", value.replace("Path", "path"),
            "required" if argument.required else f"`{shown}`" if shown != "" else "",
            about)  # fmt: skip
