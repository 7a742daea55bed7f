"""Runs that cannot go on: finished, changed, damaged or crafted; each is told in a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import remnant.runs.experiment as experiment_module
from remnant.archives import read_archive, write_archive
from remnant.data import DataConfig
from remnant.data.datasets import Dataset
from remnant.errors import InputError
from remnant.files import only_writer, write_json
from remnant.images import ArrayImages, ImageSet
from remnant.runs.experiment import resume
from tests.support.pixel_experiment import stop_at
from tests.support.worlds import load_once

pytestmark = pytest.mark.usefixtures("pixels")


# ----------------------------------------------------------------------------- no run to go on with


def test_a_finished_run_is_not_resumed(finished: Path) -> None:
    with pytest.raises(InputError, match="is finished"):
        resume(finished)


def test_a_folder_that_is_no_run_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no config\.json"):
        resume(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="is not valid JSON"):
        resume(tmp_path)
    (tmp_path / "config.json").write_text('{"data": {"dataset": "digits"}, "from": "the future"}')
    with pytest.raises(InputError):
        resume(tmp_path)


def test_a_run_that_is_being_written_is_not_resumed_beside(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 0, 7)
    with only_writer(folder / "config.json"), pytest.raises(InputError, match="another process"):
        resume(folder)


# ------------------------------------------------------------------------------------ changed since


def change_pixels(train: ImageSet) -> ImageSet:
    """Of one class, which comes last."""
    array = train.images.read(torch.arange(len(train)))
    array[train.labels == 3] ^= 1
    return replace(train, images=ArrayImages(array))


def leave_one_out(train: ImageSet) -> ImageSet:
    last = int(torch.nonzero(train.labels == 3)[-1])
    return train.select(torch.tensor([row for row in range(len(train)) if row != last]))


@pytest.mark.parametrize("change", [change_pixels, leave_one_out])
def test_data_that_changed_are_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[ImageSet], ImageSet]
) -> None:
    stop_at(tmp_path / "run", task=0, step=7)

    def load(config: DataConfig) -> Dataset:
        whole = load_once(config)
        return replace(whole, train=change(whole.train))

    monkeypatch.setattr(experiment_module, "load_dataset", load)
    with pytest.raises(InputError, match=r"images of .* changed since its last checkpoint"):
        resume(tmp_path / "run")


def test_a_config_that_was_edited_is_not_resumed(tmp_path: Path) -> None:
    stop_at(tmp_path / "run", task=1, step=1)
    values = json.loads((tmp_path / "run" / "config.json").read_text())
    write_json(tmp_path / "run" / "config.json", values | {"seed": values["seed"] + 1})
    with pytest.raises(InputError, match="changed since its last checkpoint"):
        resume(tmp_path / "run")


def test_a_run_whose_batches_have_other_parts_is_not_resumed(tmp_path: Path) -> None:
    stop_at(tmp_path / "run", task=1, step=1)
    config = tmp_path / "run" / "config.json"
    values = json.loads(config.read_text())
    values["training"]["accumulate"] = 2
    write_json(config, values)
    with pytest.raises(InputError, match="changed since its last checkpoint"):
        resume(tmp_path / "run")


def test_a_run_of_another_remnant_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(tmp_path / "run", task=1, step=1)
    monkeypatch.setattr("remnant.runs.run_origin.__version__", "99.0.0")
    with pytest.raises(InputError, match=r"this is 99\.0\.0"):
        resume(tmp_path / "run")


# ----------------------------------------------------------------------------- unusable checkpoints


def rewrite_checkpoints(folder: Path, change: Callable[[dict[str, Any], Any], Any]) -> None:
    """Checkpoints with a right checksum, as a stranger may make them."""
    for path in (folder / "checkpoint").iterdir():
        arrays, metadata = read_archive(path, "checkpoint", 1)
        metadata = change(arrays, metadata)
        write_archive(path, "checkpoint", 1, arrays, metadata)


def without_origin(arrays: dict[str, Any], metadata: Any) -> Any:
    return {"progress": metadata["progress"]}


def with_odd_progress(arrays: dict[str, Any], metadata: Any) -> Any:
    return metadata | {"progress": {"seconds_per_task": 7}}


def as_a_list(arrays: dict[str, Any], metadata: Any) -> Any:
    return [metadata]


def with_nan(arrays: dict[str, Any], metadata: Any) -> Any:
    arrays["model/classifier.weight"] = arrays["model/classifier.weight"] * np.nan
    return metadata


def of_another_shape(arrays: dict[str, Any], metadata: Any) -> Any:
    arrays["model/classifier.weight"] = arrays["model/classifier.weight"][:, :5]
    return metadata


def of_another_type(arrays: dict[str, Any], metadata: Any) -> Any:
    arrays["model/classifier.weight"] = arrays["model/classifier.weight"].astype(np.float64)
    return metadata


def with_odd_momentum(arrays: dict[str, Any], metadata: Any) -> Any:
    for name in [name for name in arrays if name.startswith("optimizer/")]:
        arrays[f"optimizer/0/x{name[-3:]}"] = arrays.pop(name)[:1]
    return metadata


def with_an_odd_memory(arrays: dict[str, Any], metadata: Any) -> Any:
    if metadata.get("memory"):
        metadata["memory"]["names"] = ["8", "9"]
    return metadata


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (without_origin, "origin must be given"),
        (with_odd_progress, "progress: .* got 7"),
        (as_a_list, "cannot be used"),
        (with_nan, "not finite"),
        (of_another_shape, "must have shape"),
        (of_another_type, r"must be of torch\.float32"),
        (with_odd_momentum, "optimiser state that does not fit"),
        (with_an_odd_memory, "names other classes"),
    ],
)
def test_nonsense_with_a_right_checksum_is_told(
    tmp_path: Path, change: Callable[[dict[str, Any], Any], Any], told: str
) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 1, 7)
    rewrite_checkpoints(folder, change)
    with pytest.raises(InputError, match=told):
        resume(folder)


def test_checkpoints_that_are_all_damaged_are_an_input_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 1, 12)
    for path in (folder / "checkpoint").iterdir():
        path.write_bytes(b"")
    with pytest.raises(InputError, match=r"no checkpoint in .* can be read"):
        resume(folder)


def test_checkpoints_of_another_version_are_an_input_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 0, 7)
    for path in (folder / "checkpoint").iterdir():
        write_archive(path, "checkpoint", 99, {}, {})
    with pytest.raises(InputError, match="version 99"):
        resume(folder)
