"""Commands that start, resume and report runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

from remnant.cli import console
from remnant.cli.precision_option import measure_precision
from remnant.errors import InputError, resume_command
from remnant.terminal.visible import visible


def run(
    *recipes: str,
    set_: console.SetOption = None,
    grid: console.GridOption = None,
    out: Path | None = None,
    seed: int | None = None,
    seeds: str | None = None,
    orders: str | None = None,
    devices: int | None = None,
    nodes: int | None = None,
    accelerator: str | None = None,
    precision: str | None = None,
    track: Literal["tensorboard"] | None = None,
    data_root: console.DataRoot = None,
) -> None:
    """Run an experiment, or several, and write a folder for each.

    Several recipes, --grid, --seeds and --orders are combined: each combination is a run in a
    folder of its own below --out, with one report over all. A run that fails is reported, the
    others go on, and the exit code is 1.

    Parameters
    ----------
    recipes
        Names from `remnant list recipes`, or paths of a config.json.
    out
        A new or empty folder for the run; by default runs/RECIPE.
    seed
        Seed of every random number: weights, order of batches, augmentation, masks.
    seeds
        Several seeds, as in 1,2,3: one run for each.
    orders
        Several class orders by name, as in icarl,dytox-2,dytox-3: one run for each.
    devices
        Number of processes on this machine, one per device; under torchrun, those that it started.
    nodes
        Number of machines, where torchrun or another launcher starts the run on several.
    accelerator
        auto, cpu, cuda or mps.
    precision
        auto, 32-true, bf16-mixed, or fastest, which measures this CPU briefly and records its
        choice in config.json.
    track
        Also log to this tracker; tensorboard writes to tensorboard/ in the run folder.
    """
    from remnant.runs.sweeps import as_folder_name, expand, run_all
    from remnant.runs.tracking import TRACKERS

    if not recipes:
        raise InputError("give at least one recipe, as in remnant run digits-er.")
    if seed is not None and seeds is not None:
        raise InputError("give --seed for one run or --seeds for several, not both.")
    if precision == "fastest":
        precision = measure_precision(accelerator)
    given = {
        "seed": seed,
        "training.devices": devices,
        "training.num_nodes": nodes,
        "training.accelerator": accelerator,
        "training.precision": precision,
    }
    settings = console.parse_settings(set_, given)
    configs = [console.configure(recipe, settings, data_root) for recipe in recipes]
    name = as_folder_name(configs[0].recipe) if len(configs) == 1 else "several"
    folder = out if out is not None else Path("runs") / name
    several = expand(
        configs,
        console.split_names("--seeds", seeds),
        console.split_names("--orders", orders),
        console.parse_grid(grid),
    )
    make_tracker = None if track is None else TRACKERS[track]
    if make_tracker is not None:
        make_tracker()  # its package may be missing: say so before anything is written

    def run_one(config: Any, folder: Path) -> None:
        trackers = () if make_tracker is None else (make_tracker(),)
        _run_one(config, folder, trackers, names=tuple(several or ()))

    with _guarding(folder):
        if several is None:
            run_one(configs[0], folder)
        else:
            _print_sweep(folder, run_all(several, folder, run_one, _tell_failure))


def resume(folder: Path, /) -> None:
    """Continue a run, or what is left of several, after it was stopped or killed.

    Parameters
    ----------
    folder
        A run folder that is not finished.
    """
    from remnant.runs.sweeps import is_sweep, resume_all, waiting_runs

    with _guarding(folder):
        if is_sweep(folder):
            names = waiting_runs(folder)
            run_one, resume_one = partial(_run_one, names=names), partial(_resume_one, names=names)
            _print_sweep(folder, resume_all(folder, run_one, resume_one, _tell_failure))
        else:
            _resume_one(folder)


def report(
    *folders: Path,
    out: Path | None = None,
    format: Literal["html", "table", "csv", "markdown", "latex", "svg"] = "html",
) -> None:
    """Write the page of one run, or compare several side by side.

    Parameters
    ----------
    folders
        Run folders, or folders of runs.
    out
        Where to write the page; by default report.html in the folder, or comparison.html here.
    format
        table, csv, markdown and latex print the results instead, svg the accuracy curves; csv has
        a line for every run, the others one for runs that differ in seed or order alone.
    """
    from remnant import reports
    from remnant.runs.run_folder import REPORT, find_runs

    if not folders:
        raise InputError("give at least one run folder, as in remnant report runs/demo.")
    if out is not None and format != "html":
        raise InputError(
            f"--out is for the page; redirect the output instead: --format {format} > FILE."
        )
    console.check_page("--out", out)
    found = find_runs(folders)
    if format != "html":
        write = {
            "csv": reports.csv_table,
            "markdown": reports.markdown_table,
            "latex": reports.latex_table,
            "svg": reports.curves_picture,
        }
        if format == "table":
            _print_comparison(folders, console.out)
        else:
            print(write[format](folders), end="")
        _warn(folders)
        return
    if len(found) == 1:
        path = reports.write_report(found[0], out)
    else:
        default = folders[0] / REPORT if len(folders) == 1 else Path("comparison.html")
        path = reports.write_comparison(folders, default if out is None else out)
        _print_comparison(folders, console.notes)
        _warn(folders)
    print(path)


def _run_one(
    config: Any, folder: Path, trackers: tuple[Any, ...] = (), names: Sequence[str] = ()
) -> None:
    """`names`: of all that are to be carried out, where this is one of several."""
    from remnant.planning.run_estimate import images_per_task
    from remnant.runs.experiment import run as execute
    from remnant.terminal.progress import watch
    from remnant.terminal.run_place import RunPlace

    with watch(images_per_task(config)) as watcher:
        place = RunPlace(names, watcher.console)
        execute(config, folder, watchers=(place, watcher, *trackers))
    _print_result(folder)


def _resume_one(folder: Path, names: Sequence[str] = ()) -> None:
    """`names`: as for `_run_one`."""
    from remnant.config import load_config
    from remnant.planning.run_estimate import images_per_task
    from remnant.runs.experiment import resume as continue_run
    from remnant.runs.run_folder import CONFIG, is_finished
    from remnant.runs.tracking import EVENT_FOLDER, TensorBoard
    from remnant.terminal.progress import watch
    from remnant.terminal.run_place import RunPlace

    planned: list[int] = []
    if (folder / CONFIG).exists() and not is_finished(folder):
        planned = images_per_task(load_config(folder / CONFIG))
    trackers = [TensorBoard()] if (folder / EVENT_FOLDER).is_dir() else []
    with watch(planned) as watcher:
        place = RunPlace(names, watcher.console)
        continue_run(folder, watchers=(place, watcher, *trackers))
    _print_result(folder)


@contextmanager
def _guarding(folder: Path) -> Iterator[None]:
    """Say how to continue the run in `folder` when it is interrupted or the disk is full."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        yield
    except KeyboardInterrupt:
        if _has_run(folder):
            text = f"stopped. To continue from the last checkpoint: {resume_command(folder)}"
            console.notes.print(text, markup=False)
        sys.exit(130)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        advice = "Nothing was written."
        if error.filename and _are_related(Path(error.filename), folder):
            advice = "Nothing was written; choose another --out."
        if _has_run(folder):
            command = resume_command(folder)
            advice = f"What was done so far is kept. Fix the problem, then: {command}."
        raise InputError(f"{place}{error.strerror or error}. {advice}") from None
    finally:
        for empty in missing:
            if empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()


def _are_related(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder) or folder.is_relative_to(path)


def _has_run(folder: Path) -> bool:
    from remnant.runs.run_folder import CONFIG, SWEEP

    return any((folder / name).is_file() for name in (CONFIG, SWEEP))


def _print_result(folder: Path) -> None:
    """The table at the end of a run, printed by the first process alone."""
    from remnant.runs.run_folder import REPORT, RESULT, is_finished
    from remnant.terminal.tables import run_table
    from remnant.training.launchers import is_main_process

    if not is_main_process():
        return

    console.out.print(run_table(folder, console.out.width))
    console.out.print(f"report: {folder / REPORT}", markup=False)
    others = [path.parent for path in folder.parent.glob(f"*/{RESULT}") if path.parent != folder]
    others = [other for other in others if is_finished(other)]
    newest = max(others, key=lambda other: (other / RESULT).stat().st_mtime, default=None)
    compared = [folder] if newest is None else [folder, newest]
    console.suggest("remnant report", *(shlex.quote(str(path)) for path in compared))


def _tell_failure(name: str, error: Exception) -> None:
    """What stopped one of several runs: a sentence, or the traceback of an error of ours."""
    import traceback

    from remnant.training.launchers import is_main_process

    if not is_main_process():
        return
    if not isinstance(error, InputError):
        console.notes.print("".join(traceback.format_exception(error)), markup=False)
    console.notes.print(f"remnant: {name} failed: {visible(error)}", style="bold red", markup=False)


def _print_sweep(folder: Path, outcome: Any) -> None:
    """The table over several runs; exits with 1 where some of them failed."""
    if outcome.page is not None:
        _print_comparison([folder], console.out)
        console.out.print(f"report: {outcome.page}", markup=False)
        _warn([folder])
    if outcome.failed:
        console.notes.print(
            f"remnant: {len(outcome.failed)} of the runs failed: {', '.join(outcome.failed)}. To "
            f"try them again: {resume_command(folder)}",
            style="bold red",
            markup=False,
        )
        sys.exit(1)


def _print_comparison(folders: Sequence[Path], where: Any) -> None:
    from remnant.terminal.tables import sweep_tables

    for table in sweep_tables(folders):
        where.print(table)


def _warn(folders: Sequence[Path]) -> None:
    """Say what in a comparison is not equal."""
    from remnant.reports.groups import read_groups, unequal_terms

    for sentence in unequal_terms(read_groups(folders)[0]):
        console.notes.print(f"not on equal terms: {sentence}", style="yellow", markup=False)
