"""The command line: one function per command.

Nothing heavy is imported until a command needs it, so that --help answers at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

import remnant

app = App(
    name="remnant",
    version=remnant.__version__,
    help="Class-incremental image learning with a replay memory counted in bytes.",
)
data = App(name="data", help="Download, verify and list data sets.")
app.command(data)

out = Console(highlight=False, soft_wrap=True)
notes = Console(stderr=True, highlight=False, soft_wrap=True)

_Json = Annotated[
    bool, Parameter(name="--json", negative="", help="print one JSON document, and nothing else")
]
_DataRoot = Annotated[
    Path | None,
    Parameter(help="the folder that holds the data sets; else $REMNANT_DATA, else a cache folder"),
]
_Settings = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", help="key=value, keys as in config.json; repeatable"),
]


@app.command
def run(
    recipe: str,
    /,
    *,
    set_: _Settings = None,
    out: Path | None = None,
    seed: int | None = None,
    seeds: str | None = None,
    orders: str | None = None,
    devices: int | None = None,
    accelerator: str | None = None,
    precision: str | None = None,
    data_root: _DataRoot = None,
) -> None:
    """Carry out a run and write its folder.

    Parameters
    ----------
    recipe
        A name from `remnant list recipes`, or the path of a config.json.
    out
        A new or empty folder for the run; by default runs/RECIPE.
    seed
        Of everything random.
    seeds
        Several, as in 1,2,3: one run each in a folder of its own, and a report over all.
    orders
        Several class orders by name, as in icarl,dytox-2,dytox-3: likewise.
    devices
        Processes on this machine.
    accelerator
        auto, cpu, cuda or mps.
    precision
        auto, 32-true or bf16-mixed.
    """
    from remnant.config import override
    from remnant.recipes import load_recipe
    from remnant.sweeps import expand, run_all

    if seed is not None and seeds is not None:
        raise _UsageError("give --seed for one run or --seeds for several, not both.")
    given = {
        "seed": seed,
        "training.devices": devices,
        "training.accelerator": accelerator,
        "training.precision": precision,
        "data.root": None if data_root is None else str(data_root),
    }
    assignments = [
        f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None
    ]
    config = override(load_recipe(recipe), [*assignments, *(set_ or [])])
    folder = out if out is not None else Path("runs") / config.recipe
    configs = expand(config, _split("--seeds", seeds), _split("--orders", orders))
    with _guarding(folder):
        if configs is None:
            _run_one(config, folder)
        else:
            _print_sweep(folder, run_all(configs, folder, _run_one))


@app.command
def resume(folder: Path, /) -> None:
    """Continue a run, or the rest of several, after a stop of any kind.

    Parameters
    ----------
    folder
        A run folder that is not finished.
    """
    from remnant.sweeps import is_sweep, resume_all

    with _guarding(folder):
        if is_sweep(folder):
            _print_sweep(folder, resume_all(folder, _run_one, _resume_one))
        else:
            _resume_one(folder)


@app.command
def report(
    *folders: Path,
    out: Path | None = None,
    format: Literal["html", "markdown", "latex", "svg"] = "html",
) -> None:
    """Write the page of one run, or compare several side by side.

    Parameters
    ----------
    folders
        Run folders, or folders of runs.
    out
        Where to write the page; by default report.html in the folder, or comparison.html here.
    format
        markdown and latex print the table of results instead, svg the accuracy curves.
    """
    from remnant import reports
    from remnant.reports.records import find_runs

    if not folders:
        raise _UsageError("give at least one run folder, as in remnant report runs/demo.")
    if format != "html":
        write = {
            "markdown": reports.markdown_table,
            "latex": reports.latex_table,
            "svg": reports.curves_picture,
        }[format]
        print(write(folders), end="")
        return
    found = find_runs(folders)
    if len(found) == 1 and out is None:
        reports.draw_figures(found[0])
        path = reports.write_report(found[0])
    else:
        default = folders[0] / "report.html" if len(folders) == 1 else Path("comparison.html")
        path = reports.write_comparison(folders, default if out is None else out)
    print(path)


@app.command(name="list")
def list_(
    what: Literal["methods", "datasets", "recipes", "codecs"],
    /,
    *,
    as_json: _Json = False,
) -> None:
    """List what there is: methods, datasets, recipes or codecs."""
    from remnant.catalogue import list_entries
    from remnant.displays import recipe_lines, table_of

    rows = list_entries(what)
    if as_json:
        _print_json(rows)
    elif what == "recipes":
        for line in recipe_lines(rows, out.width):
            out.print(line, markup=False)
        _suggest("remnant show RECIPE")
    elif what == "datasets":
        _print_datasets(rows)
    else:
        out.print(table_of(rows))


@app.command
def show(
    recipe: str,
    /,
    *,
    set_: _Settings = None,
    as_json: _Json = False,
) -> None:
    """Tell what a run will be before it starts: config, memory plan, cost. Needs no data.

    Parameters
    ----------
    recipe
        A name from `remnant list recipes`, or the path of a config.json.
    """
    from remnant.config import override
    from remnant.displays import plan_lines
    from remnant.planner import estimate
    from remnant.recipes import load_recipe

    config = override(load_recipe(recipe), set_ or [])
    plan = estimate(config)
    if as_json:
        _print_json({"config": config.model_dump(mode="json"), **plan})
        return
    out.print_json(data=config.model_dump(mode="json"))
    for line in plan_lines(plan):
        out.print(line, markup=False)
    _suggest(f"remnant run {recipe}", *(f"--set {one}" for one in set_ or []))


@app.command
def bench(*, as_json: _Json = False) -> None:
    """Measure the speed of training on this machine, as ratios, in about five minutes."""
    from remnant.bench import bench as measure
    from remnant.displays import bench_lines

    figures = measure(say=lambda text: notes.print(f"measuring {text}"))
    if as_json:
        _print_json(figures)
        return
    for line in bench_lines(figures):
        out.print(line)


@data.command(name="list")
def data_list(
    *,
    data_root: _DataRoot = None,
    as_json: _Json = False,
) -> None:
    """List the data sets, their size and whether they are here."""
    from remnant.catalogue import list_datasets

    rows = list_datasets(None if data_root is None else str(data_root))
    if as_json:
        _print_json(rows)
    else:
        _print_datasets(rows)


@data.command(name="get")
def data_get(name: str, /, *, data_root: _DataRoot = None) -> None:
    """Download a data set, verify it, and unpack the files that are needed."""
    from remnant.data import DATASETS, get_dataset

    with _counting(name, in_bytes=True) as count:
        folder = get_dataset(name, None if data_root is None else str(data_root), progress=count)
    if name == "digits":
        notes.print(f"digits come with {DATASETS[name].source}: nothing to download.")
    else:
        print(folder)


@data.command(name="check")
def data_check(name: str, /, *, data_root: _DataRoot = None) -> None:
    """Verify the files of a data set; for "folder", --data-root is the folder itself."""
    from remnant.data import check_dataset

    with _counting(name, in_bytes=False) as count:
        lines = check_dataset(name, None if data_root is None else str(data_root), progress=count)
    for line in lines:
        print(line)


# ----------------------------------------------------------------------------------------- helpers


def _run_one(config: Any, folder: Path) -> None:
    from remnant.experiment import check_plan
    from remnant.experiment import run as carry_out
    from remnant.planner import images_per_task
    from remnant.progress import watch

    check_plan(config)
    with watch(images_per_task(config)) as watcher:
        result = carry_out(config, folder, watchers=(watcher,))
    _print_result(folder, result)


def _resume_one(folder: Path) -> None:
    from remnant.config import load_config
    from remnant.experiment import is_finished
    from remnant.experiment import resume as carry_on
    from remnant.planner import images_per_task
    from remnant.progress import watch

    planned: list[int] = []
    if (folder / "config.json").exists() and not is_finished(folder):
        planned = images_per_task(load_config(folder / "config.json"))
    with watch(planned) as watcher:
        result = carry_on(folder, watchers=(watcher,))
    _print_result(folder, result)


@contextmanager
def _guarding(folder: Path) -> Iterator[None]:
    """Tell how to go on with the run in `folder` when it is interrupted or the disk is full."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        yield
    except KeyboardInterrupt:
        if _has_run(folder):
            notes.print(f"stopped. To go on from the last checkpoint: remnant resume {folder}")
        sys.exit(130)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        advice = "Nothing was written."
        if error.filename and _are_related(Path(error.filename), folder):
            advice = "Nothing was written; choose another --out."
        if _has_run(folder):
            advice = f"What is done is kept; once mended, remnant resume {folder} goes on."
        raise _UsageError(f"{place}{error.strerror or error}. {advice}") from None
    finally:
        for empty in missing:
            if empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()


def _are_related(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder) or folder.is_relative_to(path)


def _has_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("config.json", "sweep.json"))


@contextmanager
def _counting(name: str, *, in_bytes: bool) -> Iterator[Any]:
    """A bar that appears with the first count: what is already here needs none."""
    from rich.progress import DownloadColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (*Progress.get_default_columns()[:-1], amount, TimeRemainingColumn())
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as bar:
        rows: list[Any] = []

        def count(done: int, total: int | None) -> None:
            if not rows:
                rows.append(bar.add_task(name))
            bar.update(rows[0], completed=done, total=total)

        yield count


def _print_result(folder: Path, result: dict[str, Any]) -> None:
    """What ends a run; processes other than the first have nothing to tell."""
    if not result:
        return
    from remnant.displays import result_table

    out.print(result_table(folder, out.width))
    out.print(f"report: {folder / 'report.html'}", markup=False)
    _suggest(f"remnant report {folder} OTHER_RUN")


def _print_sweep(folder: Path, page: Path | None) -> None:
    if page is None:
        return
    from remnant.displays import sweep_table

    out.print(sweep_table(folder))
    out.print(f"report: {page}", markup=False)


def _print_datasets(rows: list[dict[str, Any]]) -> None:
    from remnant.displays import dataset_rows, table_of

    out.print(table_of(dataset_rows(rows)))
    absent = [row["name"] for row in rows if row["download_bytes"] and not row["present"]]
    if absent:
        _suggest(f"remnant data get {absent[0]}")


def _split(option: str, text: str | None) -> list[str]:
    parts = [] if text is None else [part.strip() for part in text.split(",")]
    if not all(parts):
        raise _UsageError(f"{option} takes values with commas between them; got {text!r}.")
    return parts


def _suggest(*command: str) -> None:
    """The command that is worth typing next."""
    notes.print(f"next: {' '.join(command)}", style="dim", markup=False)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, sort_keys=True, allow_nan=False))


class _UsageError(ValueError):
    """A command that cannot be carried out as it was given."""


def main() -> None:
    """Run a command; whatever a user can mend ends in one sentence and exit code 2."""
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=False)
    except KeyboardInterrupt:
        sys.exit(130)
    except CycloptsError as error:
        _fail(f"{error} See {' '.join(['remnant', *_command_of(error)])} --help.")
    except _UsageError as error:
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
    notes.print(f"remnant: {message}", style="bold red", markup=False)
    sys.exit(2)
