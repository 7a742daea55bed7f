"""A study over somebody's own images: methods and codecs at equal bytes, and which to take."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from shlex import quote

from pydantic import BaseModel, ConfigDict

from remnant.data.folder import has_splits, list_images, subfolders
from remnant.errors import InputError, nearest
from remnant.memory import CODECS
from remnant.memory.codecs.rates import RateConfig
from remnant.methods import METHODS
from remnant.recipes import PRESETS
from remnant.recipes.presets import Setup
from remnant.studies.evidence import Cell
from remnant.studies.study import AVG, FORGETTING, LAST, Column, Row, Study

CONTEST = "contest"
COLUMN = "images"


class ContestRequest(BaseModel):
    """Whose images, how many bytes, and who takes part."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    folder: str
    budget: str
    methods: list[str]
    codecs: list[str]
    image_size: int
    num_tasks: int | None = None
    epochs: int | None = None
    images: str = ""  # as `fingerprint_of` the folder gives it


def fingerprint_of(folder: Path) -> str:
    """Another one once an image is added, removed or replaced by a file of another size."""
    digest = hashlib.sha256()
    splits = [folder / name for name in ("train", "test")]
    for place in splits if has_splits(folder) else [folder]:
        paths, _ = list_images(place, subfolders(place) if place.is_dir() else ())
        for index in range(len(paths)):
            path = paths[index]
            size = path.stat().st_size if path.exists() else None  # a link may lead nowhere
            digest.update(os.fsencode(f"{place.name}/{paths.name(index)} {size}\n"))
    return digest.hexdigest()


def contest_study(request: ContestRequest) -> Study:
    """The study that a request stands for.

    Raises:
        InputError: A method or a codec is unknown or cannot take part, or only some of the methods
            are pretrained.
    """
    for name in request.methods:
        _check_takes_part(name)
    for name in request.codecs:
        CODECS.find(name, "--codecs")
    _check_one_kind(request.methods)
    rows = [row for name in request.methods for row in _rows(name, request)]
    if len(rows) < 2:
        raise InputError("a contest needs at least two entries. Give more --methods or --codecs.")
    changes = {"data.path": request.folder, "data.image_size": request.image_size}
    if request.num_tasks is not None:
        changes["stream.num_tasks"] = request.num_tasks
    if request.epochs is not None:
        changes["method.first.epochs"] = request.epochs
    folder = Path(request.folder).name
    return Study(
        name=CONTEST,
        title=f"Methods and codecs on {folder}",
        source="",
        question=f"What learns the images of {folder} best in {request.budget} of memory?",
        rows=tuple(rows),
        columns={"mini": (Column(COLUMN, folder, "folder", changes),)},
        metrics=(AVG, LAST, FORGETTING),
        figures=("curves", "memory"),
        tells_winner=True,
    )


def contestants() -> list[str]:
    """Names of methods, since `remnant learn` takes those alone, which learn task by task."""
    return [name for name in METHODS if _has_folder_recipe(name) and not METHODS[name].learns_once]


def _has_folder_recipe(name: str) -> bool:
    return name in PRESETS and "folder" in PRESETS[name].protocols


def _check_takes_part(name: str) -> None:
    known = contestants()
    if name in known:
        return
    if name in METHODS and METHODS[name].learns_once:
        raise InputError(
            f"--methods: {name} trains on all classes at once, which the others may not do. Leave "
            "it out."
        )
    raise InputError(
        f"--methods must be names from `remnant list methods` that have a recipe for folders; got "
        f"{name!r}.{nearest(name, known)}"
    )


def _check_one_kind(methods: list[str]) -> None:
    """Results on a pretrained encoder never share a table with those from scratch."""
    pretrained = [name for name in methods if hasattr(_setup_of(name).method, "encoder")]
    others = [name for name in methods if name not in pretrained]
    if pretrained and others:
        raise InputError(
            f"--methods: {pretrained[0]} uses a pretrained encoder and {others[0]} is trained from "
            "scratch, so they cannot be compared. Run two contests."
        )


def _rows(method: str, request: ContestRequest) -> list[Row]:
    if not METHODS[_setup_of(method).method.name].uses_memory:
        return [Row(method, method, method)]
    return [
        Row(
            f"{method}-{codec}",
            f"{method}, {codec}",
            method,
            changes={"memory.codec": _coded(codec), "memory.budget": request.budget},
        )
        for codec in request.codecs
    ]


def _setup_of(method: str) -> Setup:
    setup = PRESETS[method].setup("folder")
    assert setup is not None, "its preset has the protocol"
    return setup


def _coded(name: str) -> dict[str, str]:
    """A codec at the quality that suits the budget, the same for all methods."""
    config = CODECS[name].Config
    takes_auto = issubclass(config, RateConfig) and config.takes_auto
    return {"name": name} | ({"quality": "auto"} if takes_auto else {})


def learn_command(winner: Cell, request: ContestRequest) -> str:
    """The line that puts the winner to work."""
    parts = [
        f"remnant learn my.remnant {quote(_training_folder(request))} --method {winner.row.preset}",
        f"--budget {quote(request.budget)} --image-size {request.image_size}",
    ]
    codec = winner.row.changes.get("memory.codec", {})
    parts += [f"--set memory.codec.{name}={value}" for name, value in codec.items()]
    return " ".join(parts)


def _training_folder(request: ContestRequest) -> str:
    """The folder of class folders: `remnant learn` would take train and test for classes."""
    folder = Path(request.folder)
    return str(folder / "train") if has_splits(folder) else request.folder
