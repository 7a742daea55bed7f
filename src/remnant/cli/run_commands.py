"""Commands that start, resume and report runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from remnant.cli import console
from remnant.errors import InputError


def run(
    recipe: str,
    /,
    *,
    set_: console.Settings = None,
    out: Path | None = None,
    seed: int | None = None,
    seeds: str | None = None,
    orders: str | None = None,
    devices: int | None = None,
    accelerator: str | None = None,
    precision: str | None = None,
    data_root: console.DataRoot = None,
) -> None:
    """Run an experiment and write its folder.

    Parameters
    ----------
    recipe
        A name from `remnant list recipes`, or the path of a config.json.
    out
        A new or empty folder for the run; by default runs/RECIPE.
    seed
        Seed of every random number: weights, order of batches, augmentation, masks.
    seeds
        Several seeds, as in 1,2,3: one run for each in its own folder, and a report over all.
    orders
        Several class orders by name, as in icarl,dytox-2,dytox-3: one run for each.
    devices
        Number of processes on this machine, one per device.
    accelerator
        auto, cpu, cuda or mps.
    precision
        auto, 32-true or bf16-mixed.
    """
    from remnant.config import override
    from remnant.recipes import load_recipe
    from remnant.runs.sweeps import expand, run_all

    if seed is not None and seeds is not None:
        raise InputError("give --seed for one run or --seeds for several, not both.")
    given = {
        "seed": seed,
        "training.devices": devices,
        "training.accelerator": accelerator,
        "training.precision": precision,
        "data.root": None if data_root is None else str(data_root),
    }
    config = override(load_recipe(recipe), console.parse_settings(set_, given))
    folder = out if out is not None else Path("runs") / config.recipe
    configs = expand(config, _split("--seeds", seeds), _split("--orders", orders))
    with _guarding(folder):
        if configs is None:
            _run_one(config, folder)
        else:
            _print_sweep(folder, run_all(configs, folder, _run_one))


def resume(folder: Path, /) -> None:
    """Continue a run, or what is left of several, after it was stopped or killed.

    Parameters
    ----------
    folder
        A run folder that is not finished.
    """
    from remnant.runs.sweeps import is_sweep, resume_all

    with _guarding(folder):
        if is_sweep(folder):
            _print_sweep(folder, resume_all(folder, _run_one, _resume_one))
        else:
            _resume_one(folder)


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
    from remnant.runs.run_folder import REPORT, find_runs

    if not folders:
        raise InputError("give at least one run folder, as in remnant report runs/demo.")
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
        path = reports.write_report(found[0])
    else:
        default = folders[0] / REPORT if len(folders) == 1 else Path("comparison.html")
        path = reports.write_comparison(folders, default if out is None else out)
    print(path)


def _run_one(config: Any, folder: Path) -> None:
    from remnant.planning.run_estimate import images_per_task
    from remnant.runs.experiment import run as execute
    from remnant.terminal.progress import watch

    with watch(images_per_task(config)) as watcher:
        execute(config, folder, watchers=(watcher,))
    _print_result(folder)


def _resume_one(folder: Path) -> None:
    from remnant.config import load_config
    from remnant.planning.run_estimate import images_per_task
    from remnant.runs.experiment import resume as continue_run
    from remnant.runs.run_folder import CONFIG, is_finished
    from remnant.terminal.progress import watch

    planned: list[int] = []
    if (folder / CONFIG).exists() and not is_finished(folder):
        planned = images_per_task(load_config(folder / CONFIG))
    with watch(planned) as watcher:
        continue_run(folder, watchers=(watcher,))
    _print_result(folder)


@contextmanager
def _guarding(folder: Path) -> Iterator[None]:
    """Say how to continue the run in `folder` when it is interrupted or the disk is full."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        yield
    except KeyboardInterrupt:
        if _has_run(folder):
            console.notes.print(
                f"stopped. To continue from the last checkpoint: remnant resume {folder}"
            )
        sys.exit(130)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        advice = "Nothing was written."
        if error.filename and _are_related(Path(error.filename), folder):
            advice = "Nothing was written; choose another --out."
        if _has_run(folder):
            advice = (
                f"What was done so far is kept. Fix the problem, then: remnant resume {folder}."
            )
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
    from remnant.runs.run_folder import REPORT
    from remnant.terminal.tables import result_table
    from remnant.training.processes import is_main_process

    if not is_main_process():
        return

    console.out.print(result_table(folder, console.out.width))
    console.out.print(f"report: {folder / REPORT}", markup=False)
    console.suggest(f"remnant report {folder} OTHER_RUN")


def _print_sweep(folder: Path, page: Path | None) -> None:
    if page is None:
        return
    from remnant.terminal.tables import sweep_table

    console.out.print(sweep_table(folder))
    console.out.print(f"report: {page}", markup=False)


def _split(option: str, text: str | None) -> list[str]:
    parts = [] if text is None else [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InputError(f"{option} takes values with commas between them; got {text!r}.")
    return parts
