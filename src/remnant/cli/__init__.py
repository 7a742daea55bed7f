"""The command line: one function per command, one file per family of commands.

Heavy modules are imported by the commands that need them, so that --help is fast. To add a
command, write a function in one of these files and register it below.
"""

from __future__ import annotations

import sys
import warnings
from typing import NoReturn

from cyclopts import App, CycloptsError

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
app.command(run_commands.run)
app.command(run_commands.resume)
app.command(run_commands.report)
app.command(study_commands.reproduce)
app.command(study_commands.study)
app.command(study_commands.contest)
app.command(probe_commands.probe)
app.command(listing.list_, name="list")
app.command(info_commands.show)
app.command(info_commands.plan)
app.command(info_commands.schema)
app.command(info_commands.bench)
app.command(data_commands.app)
app.command(store_commands.learn)
app.command(store_commands.predict)
app.command(store_commands.inspect)
app.command(store_commands.forget)
app.command(store_commands.export)
app.command(upkeep_commands.verify)
app.command(upkeep_commands.score)
app.command(upkeep_commands.undo)
app.command(upkeep_commands.diff)
app.command(upkeep_commands.rebudget)
app.command(upkeep_commands.thin)
app.command(upkeep_commands.rebuild)
app.command(serve_commands.serve)


def main() -> None:
    """Run a command; an error that the user can fix is one sentence and exit code 2."""
    # What Pillow says of odd images, with a path and a line of its code: `data.decode` refuses
    # what cannot be read, with an error of its own.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    warnings.filterwarnings("ignore", "Image size .* exceeds limit")
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=False)
    except KeyboardInterrupt:
        sys.exit(130)
    except CycloptsError as error:
        _fail(f"{error} See {' '.join(['remnant', *_command_of(error)])} --help.")
    except InputError as error:
        _fail(visible(error))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(visible(f"{place}{error.strerror or error}."))


def _command_of(error: CycloptsError) -> list[str]:
    return list(error.command_chain or ())


def _fail(message: str) -> NoReturn:
    console.notes.print(f"remnant: {message}", style="bold red", markup=False)
    sys.exit(2)
