"""The folder of a study: what was asked for, the runs, and the pages.

OUT/runs/NAME/            run folders, shared by all studies in OUT
OUT/runs/NAME.log         what each printed
OUT/jobs/                 jobs of a cluster, where there is one (`cluster`)
OUT/STUDY-SCALE/study.json, index.html, study.md, table.csv, table.tex
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from remnant._version import __version__
from remnant.errors import InputError
from remnant.files import make_folder, read_json_object, write_json
from remnant.studies.contest import ContestRequest
from remnant.studies.equal_terms import equal_epochs, with_epochs
from remnant.studies.study import Equal, Study, StudyScale
from remnant.studies.study_runs import StudyRun, runs_of

STUDY_FILE = "study.json"
RUNS = "runs"
PAGE = "index.html"
MARKDOWN = "study.md"
CSV = "table.csv"
LATEX = "table.tex"


class StudyRequest(BaseModel):
    """What study.json holds: which part of a study was asked for."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    study: str
    scale: StudyScale
    seeds: list[int] = [0]
    rows: list[str] = []  # []: all
    columns: list[str] = []
    equal: Equal = "steps"
    contest: ContestRequest | None = None  # of a study over somebody's own images
    epochs: dict[str, int] = {}  # of the runs whose epochs were changed to make them equal
    format: Literal[1] = 1
    remnant: str = __version__

    def widened(self, other: Self) -> Self:
        """Both requests in one, so that a second part of a study joins the first on its page."""
        return self.model_copy(
            update={
                "seeds": sorted({*self.seeds, *other.seeds}),
                "rows": _union(self.rows, other.rows),
                "columns": _union(self.columns, other.columns),
                "epochs": other.epochs | self.epochs,
            }
        )


def _union(one: list[str], other: list[str]) -> list[str]:
    return [*dict.fromkeys([*one, *other])] if one and other else []


@dataclass(frozen=True)
class StudyFolder:
    """One study at one scale, below the folder that holds all runs."""

    path: Path
    study: Study
    request: StudyRequest  # with all that was asked for before
    runs: list[StudyRun]  # on its page
    asked: list[StudyRun] = field(default_factory=list)  # this time, to be carried out

    @property
    def runs_path(self) -> Path:
        return self.path.resolve().parent / RUNS

    def write_request(self) -> None:
        make_folder(self.path)
        request = self.request
        if (self.path / STUDY_FILE).exists():  # another command may have asked for more since
            request = read_request(self.path).widened(request)
        write_json(self.path / STUDY_FILE, request.model_dump(mode="json"))


def open_study(study: Study, request: StudyRequest, out: Path) -> StudyFolder:
    """The folder of a study below `out`, whether it exists or not.

    Raises:
        InputError: The study has no such part, or the folder belongs to another study.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"--out must be a folder; {out} is a file.")
    path = out / f"{study.name}-{request.scale}"
    whole = request
    if (path / STUDY_FILE).exists():
        known = read_request(path)
        if _is_other(known, request):
            raise InputError(
                f"{path} already holds a study with other settings or of other images. Choose "
                "another --out."
            )
        whole = known.widened(request)
    if request.equal != "steps":
        runs = runs_of(study, request.scale, whole.seeds, whole.rows, whole.columns)
        missing = [run for run in runs if run.name not in whole.epochs]
        found = equal_epochs(study, request.scale, missing, request.equal)
        whole = whole.model_copy(update={"epochs": whole.epochs | found})
    asked = request.model_copy(update={"epochs": whole.epochs})
    return StudyFolder(path, study, whole, _runs(study, whole), _runs(study, asked))


def reopen_study(folder: Path, study: Study) -> StudyFolder:
    """A study's folder as it is, wherever it was moved to beside its runs.

    Raises:
        InputError: It is no folder of a study, or damaged.
    """
    request = read_request(folder)
    return StudyFolder(folder, study, request, _runs(study, request))


def _is_other(known: StudyRequest, request: StudyRequest) -> bool:
    """Whether they are about different things, and not two parts of one."""
    contest = known.contest
    if contest is not None and request.contest is not None and not contest.images:
        # It was written before images had fingerprints.
        contest = contest.model_copy(update={"images": request.contest.images})
    before = (known.study, known.scale, known.equal, contest)
    return before != (request.study, request.scale, request.equal, request.contest)


def _runs(study: Study, request: StudyRequest) -> list[StudyRun]:
    runs = runs_of(study, request.scale, request.seeds, request.rows, request.columns)
    return with_epochs(runs, request.epochs)


def read_request(folder: Path) -> StudyRequest:
    """What was asked for in a study's folder.

    Raises:
        InputError: It is no folder of a study, or damaged.
    """
    path = folder / STUDY_FILE
    if not path.is_file():
        raise InputError(
            f"{folder} must be the folder of a study, which holds a {STUDY_FILE}; it does not. "
            "Name a folder such as studies/components-mini."
        )
    values: dict[str, Any] = read_json_object(path, "what a study was asked for")
    try:
        return StudyRequest.model_validate(values)
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(str(part) for part in wrong["loc"])
        raise InputError(f"{path}: its entry {where} is wrong ({wrong['msg']}).") from None
