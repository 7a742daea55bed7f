"""The command line: one function per command, one file per family of commands.

Heavy modules are imported by the commands that need them, so that --help is fast. To add a
command, write a function in one of these files and add it to a family below.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, NoReturn

from cyclopts import App, CycloptsError, Group

from remnant._version import __version__
from remnant.cli import (
    console,
    data_commands,
    info_commands,
    listing,
    probe_commands,
    run_commands,
    serve_commands,
    store_commands,
    study_commands,
    upkeep_commands,
)
from remnant.errors import InputError
from remnant.terminal.visible import visible

app = App(
    name="remnant",
    version=__version__,
    help="Class-incremental image learning with a replay memory counted in bytes.",
)
_FAMILIES: dict[str, tuple[Any, ...]] = {
    "Teach and use a classifier": (
        store_commands.learn,
        store_commands.predict,
        upkeep_commands.score,
        store_commands.inspect,
        serve_commands.serve,
        store_commands.export,
    ),
    "Look after a classifier": (
        upkeep_commands.undo,
        store_commands.forget,
        upkeep_commands.verify,
        upkeep_commands.diff,
        upkeep_commands.rebudget,
        upkeep_commands.thin,
        upkeep_commands.rebuild,
    ),
    "Run methods": (
        run_commands.run,
        run_commands.resume,
        run_commands.report,
        probe_commands.probe,
        data_commands.app,
    ),
    "Compare methods": (
        study_commands.reproduce,
        study_commands.study,
        study_commands.contest,
    ),
    "Look up": (
        listing.list_,
        info_commands.show,
        info_commands.plan,
        info_commands.schema,
        info_commands.bench,
    ),
}


def _register(command: Any, group: Group) -> None:
    if isinstance(command, App):  # commands of commands
        command.group = group
        app.command(command)
    else:
        name = "list" if command is listing.list_ else None
        app.command(command, name=name, group=group)


for _place, (_title, _commands) in enumerate(_FAMILIES.items()):
    _group = Group(_title, sort_key=_place)
    for _command in _commands:
        _register(_command, _group)
app["--help"].group = app["--version"].group = Group("Options", sort_key=len(_FAMILIES))


def main() -> None:
    """Run a command; an error that the user can fix is one sentence and exit code 2."""
    # What Pillow says of odd images, with a path and a line of its code: `data.decode` refuses
    # what cannot be read, with an error of its own.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    warnings.filterwarnings("ignore", "Image size .* exceeds limit")
    try:
        _call_app()
    except KeyboardInterrupt:
        sys.exit(130)
    except CycloptsError as error:
        _fail(f"{error} See {' '.join(['remnant', *_command_of(error)])} --help.")
    except InputError as error:
        _fail(visible(error))
    except BrokenPipeError:  # nobody reads on, as behind `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        sys.exit(1)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(visible(f"{place}{error.strerror or error}."))


def _call_app() -> None:
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=False)
    except SystemExit:  # so a command ends
        sys.stdout.flush()  # Python would do it later, and say in its own words that a pipe broke
        raise


def _command_of(error: CycloptsError) -> list[str]:
    return list(error.command_chain or ())


def _fail(message: str) -> NoReturn:
    console.notes.print(f"remnant: {message}", style="bold red", markup=False)
    sys.exit(2)
