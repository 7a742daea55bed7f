"""Commands that carry out studies and write their pages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from remnant.cli import console
from remnant.cli.cluster_output import read_cluster, submit_runs
from remnant.cli.precision_option import measure_precision
from remnant.cli.study_output import print_forecast, print_studies, print_study
from remnant.errors import InputError

Flag = Annotated[bool, Parameter(negative="")]


def reproduce(
    *studies: str,
    scale: Literal["smoke", "mini", "lite", "paper"] = "mini",
    seeds: str = "0",
    rows: str | None = None,
    columns: str | None = None,
    jobs: int | None = None,
    out: Path = Path("studies"),
    data_root: console.DataRoot = None,
    equal: Literal["steps", "flops", "seconds"] | None = None,
    precision: Literal["auto", "32-true", "bf16-mixed", "fastest"] = "auto",
    gpu: Literal["t4", "v100", "a100", "h100"] = "a100",
    cluster: Literal["slurm", "local"] | None = None,
    gpus_per_run: int | None = None,
    hours: float | None = None,
    partition: str | None = None,
    set_slurm: Annotated[list[str] | None, Parameter(negative="")] = None,
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    dry_run: Flag = False,
) -> None:
    """Reproduce tables and figures of the paper, and compare the results with the reported numbers.

    Finished runs are not repeated, and interrupted ones are resumed.

    Parameters
    ----------
    studies
        Names from `remnant reproduce --list`, or "all".
    scale
        smoke checks in minutes that everything runs; mini compares on ten classes; lite has the
        paper's streams for two cores; paper is as printed and needs GPUs.
    seeds
        Seeds of the runs of every cell, as in 0,1,2.
    rows
        Only these rows, as in baseline,full.
    columns
        Only these columns, as in 10.
    jobs
        Runs at the same time; by default one per core, or per GPU. Cores are shared out.
    out
        Folder of the studies and of their runs.
    equal
        What is equal for all rows: steps (schedules stay as they are), or flops or seconds, for
        which all schedules of a row are stretched.
    precision
        As in `remnant run`. A run that has already started keeps its own.
    gpu
        GPU model whose hours --dry-run estimates.
    cluster
        Submit the runs as one job array: slurm, or local to run the jobs on this machine.
    gpus_per_run
        GPUs per job; by default 1, or 0 if there are none.
    hours
        Time limit of a job, which is then requeued and resumes; by default 24.
    partition
        Slurm partition.
    set_slurm
        Other Slurm options as key=value, as in cpus_per_task=16 or account=vision. Repeatable.
    list_
        Print the studies.
    dry_run
        Print every run with images, FLOPs, hours and what is done, and run nothing.
    """
    if list_:
        print_studies()
        return
    if not studies:
        raise InputError("name a study, as in remnant reproduce components. See --list.")
    from remnant.studies.study_folder import reopen_study
    from remnant.studies.study_runs import in_precision

    folders = _open_studies(studies, scale, seeds, rows, columns, equal, out)
    chosen = measure_precision() if precision == "fastest" else precision
    runs = [in_precision(run, chosen) for folder in folders for run in folder.asked]
    if dry_run:
        print_forecast(runs, folders[0].runs_path, gpu)
        return
    _check_jobs(jobs)
    options = read_cluster(cluster, gpus_per_run, hours, partition, set_slurm)
    left = _prepare(folders, runs, data_root)
    if left and options is not None and options.kind == "slurm":
        submit_runs(folders, left, options, data_root)
        return
    failures = _carry_out(folders, left, jobs, data_root, options)
    for folder in folders:  # as they are by now: another command may have added to them
        print_study(reopen_study(folder.path, folder.study))
    if failures:
        sys.exit(1)


def study(folder: Path, /) -> None:
    """Write the pages of a study again, from its run folders alone.

    Parameters
    ----------
    folder
        The folder of a study, such as studies/components-mini.
    """
    from remnant.studies import find_study
    from remnant.studies.contest import contest_study
    from remnant.studies.study_folder import read_request, reopen_study

    request = read_request(folder)
    known = contest_study(request.contest) if request.contest else find_study(request.study)
    print_study(reopen_study(folder, known))


def contest(
    folder: Path,
    /,
    *,
    budget: str = "60KiB/class",
    methods: str = "bimae,er,icarl,bic",
    codecs: str = "transform,webp",
    seeds: str = "0",
    image_size: int = 32,
    tasks: int | None = None,
    epochs: int | None = None,
    jobs: int | None = None,
    out: Path = Path("contest"),
) -> None:
    """Find the method and codec that learn your own images best at equal bytes of memory.

    Splits the images, runs every method with every codec, and ends with a verdict, a page, and the
    `remnant learn` line that uses the winner.

    Parameters
    ----------
    folder
        A folder with one sub-folder of images per class.
    budget
        Memory for exemplars, as in 60KiB/class or 2MiB.
    methods
        Names from `remnant list methods`, with commas between them.
    codecs
        Names from `remnant list codecs`, with commas between them.
    seeds
        Seeds, as in 0,1,2; with several the verdict has a spread.
    image_size
        Side in pixels to which images are resized.
    tasks
        Number of tasks; by default chosen from the number of classes.
    epochs
        Passes over the new images; by default those of the recipes.
    jobs
        Runs at the same time; by default one per core, or per GPU.
    out
        Folder of the contest and of its runs.
    """
    from remnant.studies.contest import (
        CONTEST,
        ContestRequest,
        contest_study,
        fingerprint_of,
        learn_command,
    )
    from remnant.studies.study_folder import StudyRequest, open_study, reopen_study
    from remnant.studies.winner import ranking

    asked = ContestRequest(
        folder=str(folder.expanduser().resolve()),
        budget=budget,
        methods=console.split_names("--methods", methods),
        codecs=console.split_names("--codecs", codecs),
        image_size=image_size,
        num_tasks=tasks,
        epochs=epochs,
        images=fingerprint_of(folder.expanduser()),
    )
    request = StudyRequest(study=CONTEST, scale="mini", seeds=_numbers(seeds), contest=asked)
    opened = open_study(contest_study(asked), request, out)
    _check_jobs(jobs)
    left = _prepare([opened], opened.asked, None)
    failures = _carry_out([opened], left, jobs, None, None)
    evidence = print_study(reopen_study(opened.path, opened.study))
    ranked = ranking(evidence, evidence.columns[0])
    if ranked:
        console.suggest(learn_command(ranked[0], asked))
    if failures:
        sys.exit(1)


def _check_jobs(jobs: int | None) -> None:
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1; got {jobs}.")


def _open_studies(
    names: Sequence[str],
    scale: Any,
    seeds: str,
    rows: str | None,
    columns: str | None,
    equal: Any,
    out: Path,
) -> list[Any]:
    from remnant.studies import STUDIES, find_study
    from remnant.studies.study_folder import StudyRequest, open_study

    if list(names) == ["all"]:
        names = [name for name, one in STUDIES.items() if scale in one.columns]
    folders = []
    for name in dict.fromkeys(names):
        found = find_study(name)
        request = StudyRequest(
            study=name,
            scale=scale,
            seeds=_numbers(seeds),
            rows=console.split_names("--rows", rows),
            columns=console.split_names("--columns", columns),
            equal=equal or found.equal,
        )
        folders.append(open_study(found, request, out))
    return folders


def _prepare(folders: Sequence[Any], runs: Sequence[Any], data_root: Path | None) -> list[Any]:
    """The runs that are left, once it is clear that they can be carried out."""
    from remnant.studies.forecast import check_data, check_room

    place = folders[0].runs_path
    left = [run for run in _distinct(runs) if not run.is_done(place)]
    check_data(left, data_root)
    check_room(left, place)
    for folder in folders:
        folder.write_request()
    return left


def _distinct(runs: Sequence[Any]) -> list[Any]:
    return list({run.name: run for run in runs}.values())


def _carry_out(
    folders: Sequence[Any],
    left: Sequence[Any],
    jobs: int | None,
    data_root: Path | None,
    options: Any,
) -> Sequence[Any]:
    from remnant.studies.cluster import carry_out_locally
    from remnant.studies.fan_out import carry_out
    from remnant.terminal.study_progress import StudyProgress

    place = folders[0].runs_path
    total = len(_distinct([run for folder in folders for run in folder.asked]))
    with StudyProgress(console.notes, total, total - len(left)) as progress:
        common: dict[str, Any] = {"progress": progress, "data_root": data_root}
        try:
            if options is None:
                return carry_out(left, place, jobs or _default_jobs(1), **common)
            count = jobs or _default_jobs(options.gpus_per_run)
            return carry_out_locally(left, place, options, count, **common)
        except KeyboardInterrupt:
            progress.close()
            console.notes.print(
                "stopped. Run the same command again to continue from the last checkpoints."
            )
            sys.exit(130)


def _default_jobs(gpus_per_run: int) -> int:
    """As many as GPUs allow, else one per core, each on one thread."""
    from remnant.cores import usable_cores
    from remnant.studies.usable_gpus import usable_gpus

    gpus = len(usable_gpus())
    return max(1, gpus // gpus_per_run) if gpus and gpus_per_run else usable_cores()


def _numbers(text: str) -> list[int]:
    from remnant.runs.sweeps import parse_seeds

    return list(dict.fromkeys(parse_seeds(console.split_names("--seeds", text))))
