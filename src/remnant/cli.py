"""The command line: one function per command.

Nothing heavy is imported until a command needs it, so that --help answers at once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter
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

_Settings = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", help="key=value, keys as in config.json; repeatable"),
]


@app.command
def run(
    recipe: str,
    *,
    set_: _Settings = None,
    out: Path | None = None,
    seed: int | None = None,
    seeds: str | None = None,
    orders: str | None = None,
    devices: int | None = None,
    accelerator: str | None = None,
    precision: str | None = None,
    data_root: Path | None = None,
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
    data_root
        The folder that holds the data sets.
    """
    from remnant.config import override
    from remnant.recipes import load_recipe
    from remnant.sweeps import expand, run_all

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
    configs = expand(config, _split(seeds), _split(orders))
    if configs is None:
        _run_one(config, folder)
    else:
        report = run_all(configs, folder, _run_one)
        notes.print(f"comparison: {report}")


@app.command
def resume(folder: Path) -> None:
    """Continue a run, or the rest of several, after a stop of any kind.

    Parameters
    ----------
    folder
        A run folder that is not finished.
    """
    from remnant.sweeps import is_sweep, resume_all

    if is_sweep(folder):
        report = resume_all(folder, _run_one, _resume_one)
        notes.print(f"comparison: {report}")
    else:
        _resume_one(folder)


@app.command
def report(
    *folders: Path,
    out: Path | None = None,
    format: Literal["html", "markdown", "latex"] = "html",
) -> None:
    """Write the page of one run, or compare several side by side.

    Parameters
    ----------
    folders
        Run folders, or folders of runs.
    out
        Where to write the page; by default report.html in the folder, or comparison.html here.
    format
        markdown and latex print the table of results instead.
    """
    from remnant import reports
    from remnant.reports.records import find_runs

    if not folders:
        raise reports.RunFolderError(
            "give at least one run folder, as in remnant report runs/demo."
        )
    if format != "html":
        print_table = reports.markdown_table if format == "markdown" else reports.latex_table
        print(print_table(folders))
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
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """List what there is: methods, datasets, recipes or codecs."""
    from remnant.catalogue import list_entries

    rows = list_entries(what)
    if as_json:
        _print_json(rows)
    else:
        _print_rows(rows)


@app.command
def show(
    recipe: str,
    *,
    set_: _Settings = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Tell what a run will be before it starts: config, memory plan, cost. Needs no data.

    Parameters
    ----------
    recipe
        A name from `remnant list recipes`, or the path of a config.json.
    """
    from remnant.config import override
    from remnant.planner import estimate
    from remnant.recipes import load_recipe

    config = override(load_recipe(recipe), set_ or [])
    plan = estimate(config)
    if as_json:
        _print_json({"config": config.model_dump(mode="json"), **plan})
        return
    out.print_json(data=config.model_dump(mode="json"))
    _print_plan(plan)


@data.command(name="list")
def data_list(
    *,
    data_root: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """List the data sets, their size and whether they are here."""
    from remnant.catalogue import list_datasets

    rows = list_datasets(None if data_root is None else str(data_root))
    if as_json:
        _print_json(rows)
    else:
        _print_rows(rows)


@data.command(name="get")
def data_get(name: str, *, data_root: Path | None = None) -> None:
    """Download a data set, verify it, and unpack the files that are needed."""
    from rich.progress import DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from remnant.data import get_dataset

    columns = (*Progress.get_default_columns()[:-1], DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=notes) as progress:
        row = progress.add_task(name, total=None)
        folder = get_dataset(
            name,
            None if data_root is None else str(data_root),
            progress=lambda done, total: progress.update(row, completed=done, total=total),
        )
    print(folder)


@data.command(name="check")
def data_check(name: str, *, data_root: Path | None = None) -> None:
    """Verify the files of a data set."""
    from remnant.data import check_dataset

    for line in check_dataset(name, None if data_root is None else str(data_root)):
        print(line)


# ----------------------------------------------------------------------------------------- helpers


def _run_one(config: Any, folder: Path) -> None:
    from remnant.experiment import check_plan
    from remnant.experiment import run as carry_out
    from remnant.progress import watch

    tasks = check_plan(config)
    with watch(len(tasks)) as watcher:
        result = carry_out(config, folder, watchers=(watcher,))
    _print_result(folder, result)


def _resume_one(folder: Path) -> None:
    from remnant.config import load_config
    from remnant.experiment import check_plan
    from remnant.experiment import resume as carry_on
    from remnant.progress import watch

    num_tasks = 1
    if (folder / "config.json").exists():
        num_tasks = len(check_plan(load_config(folder / "config.json")))
    with watch(num_tasks) as watcher:
        result = carry_on(folder, watchers=(watcher,))
    _print_result(folder, result)


def _print_result(folder: Path, result: dict[str, Any]) -> None:
    """The table at the end of a run; processes other than the first have nothing to tell."""
    if not result:
        return
    from rich.table import Table

    from remnant.reports import terminal_rows

    headers, rows = terminal_rows(folder)
    table = Table(*headers)
    for row in rows:
        table.add_row(*row)
    out.print(table)
    out.print(
        f"average {result['average_accuracy']:.2f} %   last {result['last_accuracy']:.2f} %   "
        f"forgetting {result['forgetting']:.2f} %"
    )
    out.print(f"report: {folder / 'report.html'}")


def _print_plan(plan: dict[str, Any]) -> None:
    flops = plan["flops_per_image"]
    out.print(f"tasks            {plan['task_sizes']} classes")
    out.print(f"parameters       {plan['parameters']:,} after the last task")
    out.print(
        f"arithmetic       {flops['train'] / 1e9:.3f} GFLOP per training image, "
        f"{flops['predict'] / 1e9:.3f} per prediction"
    )
    out.print(
        f"whole run        {plan['train_images']:,} training images, "
        f"{plan['train_flops'] / 1e12:.2f} TFLOP"
    )
    if not plan["memory_plan"]:
        out.print("memory           none")
    for index, row in enumerate(plan["memory_plan"]):
        label = "memory" if index == 0 else ""
        out.print(f"{label:16s} {_describe_memory(index, row)}")


def _describe_memory(index: int, row: dict[str, Any]) -> str:
    if row["exemplars_per_class"] is None:
        return f"after task {index + 1}: as many exemplars as their sizes allow"
    return (
        f"after task {index + 1}: {row['exemplars_per_class']} exemplars per class of "
        f"{row['bytes_per_exemplar']:,} bytes, {row['total_bytes']:,} of "
        f"{row['budget_bytes']:,} bytes"
    )


def _split(text: str | None) -> list[str]:
    return [] if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, sort_keys=True, allow_nan=False))


def _print_rows(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    out.print(table)


def main() -> None:
    """Run a command; whatever a user can mend ends in one sentence and exit code 2."""
    try:
        app()
    except KeyboardInterrupt:
        notes.print("stopped. remnant resume FOLDER goes on from the last checkpoint.")
        sys.exit(130)
    except OSError as error:
        _fail(_describe_os_error(error))
    except ValueError as error:
        # Loaded by now if it was raised; other ValueErrors are our own mistakes.
        from remnant.contracts import InputError
        from remnant.reports import RunFolderError

        if not isinstance(error, InputError | RunFolderError):
            raise
        _fail(str(error))


def _describe_os_error(error: OSError) -> str:
    what = error.strerror or str(error)
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{what}. Nothing finished is lost; once mended, remnant resume FOLDER goes on."


def _fail(message: str) -> None:
    notes.print(f"remnant: {message}", style="bold red", markup=False)
    sys.exit(2)
