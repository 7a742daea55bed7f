"""Claims about the data config and the data root."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from remnant.data import DATASETS, DataConfig, data_root, facts


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
    known = facts(config)
    assert (known.image_size, known.train_per_class, known.test_per_class) == (64, 90, 10)
    assert facts(DataConfig(dataset="cifar100", root="/nowhere")) == DATASETS["cifar100"]


def test_default_tasks_divide_the_classes() -> None:
    for known in DATASETS.values():
        assert known.num_classes % known.default_num_tasks == 0
