"""The command line: one function per command, one file per family of commands.

Nothing heavy is imported until a command needs it, so that --help answers at once. To add a
command: a function in a file here, and a line in the list below.
"""

from __future__ import annotations

import sys
import warnings
from typing import NoReturn

from cyclopts import App, CycloptsError

import remnant
from remnant.cli import console, data, looking, runs, serving, stores

app = App(
    name="remnant",
    version=remnant.__version__,
    help="Class-incremental image learning with a replay memory counted in bytes.",
)
app.command(runs.run)
app.command(runs.resume)
app.command(runs.report)
app.command(looking.list_, name="list")
app.command(looking.show)
app.command(looking.plan)
app.command(looking.bench)
app.command(data.app)
app.command(stores.learn)
app.command(stores.predict)
app.command(stores.inspect)
app.command(stores.forget)
app.command(stores.export)
app.command(serving.serve)


def main() -> None:
    """Run a command; whatever a user can mend ends in one sentence and exit code 2."""
    # Pillow warns of what `data.decode` refuses in a sentence.
    warnings.filterwarnings("ignore", "Image size .* exceeds limit")
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=False)
    except KeyboardInterrupt:
        sys.exit(130)
    except CycloptsError as error:
        _fail(f"{error} See {' '.join(['remnant', *_command_of(error)])} --help.")
    except console.UsageError as error:
        _fail(str(error))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror or error}.")
    except ValueError as error:
        # Loaded by now if it was raised; other ValueErrors are our own mistakes.
        from remnant.contracts import InputError
        from remnant.reports import RunFolderError

        if not isinstance(error, InputError | RunFolderError):
            raise
        _fail(str(error))


def _command_of(error: CycloptsError) -> list[str]:
    return list(error.command_chain or ())


def _fail(message: str) -> NoReturn:
    console.notes.print(f"remnant: {message}", style="bold red", markup=False)
    sys.exit(2)
