from __future__ import annotations

from typing import Any

import pytest

from remnant.config import override
from remnant.errors import InputError
from remnant.methods.icarl import ICaRLConfig
from remnant.methods.mrdc import MRDCConfig
from remnant.recipes import load_recipe
from remnant.runs.experiment import validate_run
from tests.support.small_residual import SCHEDULE


def parse(**values: Any) -> MRDCConfig:
    return MRDCConfig.parse({"first": SCHEDULE, **values})


def test_a_base_is_chosen_by_its_name_or_by_its_settings() -> None:
    assert parse().base.name == "ucir"
    assert parse(base="er").base.name == "er"
    base = parse(base={"name": "icarl", "prediction": "scores"}).base
    assert isinstance(base, ICaRLConfig)
    assert base.prediction == "scores"


def test_schedule_and_backbone_of_the_base_are_those_of_the_wrapper() -> None:
    config = parse(base="er", backbone={"name": "resnet8"})
    shorter = config.model_copy(update={"first": config.first.model_copy(update={"epochs": 9})})
    base = shorter.base_config()
    assert (base.first.epochs, base.later) == (9, None)
    assert base.model_dump()["backbone"]["name"] == "resnet8"
    assert set(config.model_dump()["base"]) == {"name", "label_smoothing", "logit_adjustment"}
    assert parse(**config.model_dump(mode="json")) == config


def test_settings_of_the_base_are_changed_like_others() -> None:
    config = override(load_recipe("digits-mrdc"), {"method.base.margin": 0.3})
    assert config.method.base_config().margin == 0.3
    other = override(config, {"method.base": "er", "method.first.epochs": 2})
    assert (other.method.base.name, other.method.base_config().first.epochs) == ("er", 2)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"method.base": "bimae"}, "method.base must be one of ucir, icarl, .*; got bimae"),
        ({"method.base.first.epochs": 2}, "the base has the first of the method around it"),
        ({"method.base.magrin": 2}, "Did you mean method.base.margin"),
        ({"memory.codec": "raw"}, "mrdc chooses the quality of its codec"),
    ],
)
def test_a_base_that_cannot_be_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        validate_run(override(load_recipe("digits-mrdc"), changes))
