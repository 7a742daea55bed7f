"""Claims about the table of data sets, the data config and the data root."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

import remnant
from remnant.data import (
    DATASETS,
    DataConfig,
    DatasetSpec,
    check_dataset,
    data_root,
    describe_dataset,
    get_dataset,
)
from remnant.errors import InputError
from tests.support.command_line import tiny_config

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_dataset.py"


@pytest.fixture
def stripes() -> Iterator[DatasetSpec]:
    """A data set from outside the package, registered for one test."""
    yield DATASETS.register(runpy.run_path(str(EXAMPLE))["STRIPES"])
    del DATASETS["stripes"]


def test_a_registered_data_set_runs_like_the_packages_own(
    stripes: DatasetSpec, tmp_path: Path
) -> None:
    config = tiny_config(data__dataset="stripes")
    result = remnant.run(config, tmp_path / "run", progress=False)
    assert result["dataset"] == "stripes"
    assert result["task_sizes"] == [2, 2]
    assert result["class_names"] == ["1 stripes", "2 stripes", "3 stripes", "4 stripes"]


def test_a_registered_data_set_is_listed_checked_and_present(
    stripes: DatasetSpec, tmp_path: Path
) -> None:
    assert list(DATASETS)[-1] == "stripes"
    assert stripes.is_present(tmp_path)
    assert get_dataset("stripes", str(tmp_path)) == tmp_path
    lines = check_dataset("stripes", str(tmp_path))
    assert lines[0] == "train: 160 images of 4 classes, all decoded"


def test_a_package_adds_a_data_set_by_its_entry_point(tmp_path: Path) -> None:
    metadata = tmp_path / "stripes-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: stripes\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[remnant.datasets]\nstripes = own_dataset:STRIPES\n"
    )
    code = "from remnant.data import DataConfig; print(DataConfig(dataset='stripes').dataset)"
    places = [str(tmp_path), str(EXAMPLE.parent), *sys.path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout == "stripes\n", done.stderr


def test_only_a_spec_can_be_registered_and_no_name_twice(stripes: DatasetSpec) -> None:
    with pytest.raises(InputError, match="must be a DatasetSpec; got 'stripes'"):
        DATASETS.register("stripes")  # type: ignore[arg-type]
    other = runpy.run_path(str(EXAMPLE))["STRIPES"]
    with pytest.raises(InputError, match="already a data set named 'stripes'"):
        DATASETS.register(other)


def test_every_data_set_can_be_downloaded_or_says_how_to_get_it_or_needs_nothing() -> None:
    for name, spec in DATASETS.items():
        assert not (spec.archive and spec.how_to_get), name
        assert spec.facts.download_bytes == (spec.archive and spec.archive.download_bytes), name
        assert bool(spec.marker or spec.needs_path) == bool(spec.how_to_get), name


def test_unknown_dataset_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValidationError, match=r"Did you mean cifar100\?"):
        DataConfig(dataset="cifar-100")


@pytest.mark.parametrize(
    "wrong",
    [
        {"holdout_ratio": 1.0},
        {"holdout_ratio": -0.1},
        {"images_per_class": 0},
        {"image_size": 0},
        {"workers": 0},
        {"path": "photos"},
    ],
)
def test_values_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        DataConfig(dataset="digits", **wrong)


def test_folder_needs_a_path() -> None:
    with pytest.raises(ValidationError, match=r"data\.path"):
        DataConfig(dataset="folder")


def test_root_is_the_argument_then_the_environment_then_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REMNANT_DATA", "/from/environment")
    assert data_root("/from/argument") == Path("/from/argument")
    assert data_root(None) == Path("/from/environment")
    monkeypatch.delenv("REMNANT_DATA")
    assert "remnant" in str(data_root(None))


def test_facts_need_no_data_and_follow_the_config() -> None:
    config = DataConfig(
        dataset="cifar100", root="/nowhere", image_size=64, images_per_class=100, holdout_ratio=0.1
    )
    known = describe_dataset(config)
    assert (known.image_size, known.train_per_class, known.test_per_class) == (64, 90, 10)
    unchanged = DataConfig(dataset="cifar100", root="/nowhere")
    assert describe_dataset(unchanged) == DATASETS["cifar100"].facts


def test_default_tasks_divide_the_classes() -> None:
    for spec in DATASETS.values():
        assert spec.facts.num_classes % spec.facts.default_num_tasks == 0
