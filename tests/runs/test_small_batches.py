"""A batch must have an image for every part of it, on every process."""

from __future__ import annotations

import pytest

from remnant.config import override
from remnant.errors import InputError
from remnant.recipes import load_recipe
from remnant.runs.experiment import validate_run


@pytest.mark.parametrize("name", ["first", "later"])
def test_a_batch_without_an_image_for_every_part_is_refused(name: str) -> None:
    config = override(
        load_recipe("digits-er"),
        {"training.devices": 2, "training.accumulate": 3, "method.later.epochs": 1},
    )
    validate_run(override(config, {f"method.{name}.batch_size": 6}))
    with pytest.raises(InputError, match=f"method.{name}.batch_size must be at least 6, .* got 5"):
        validate_run(override(config, {f"method.{name}.batch_size": 5}))
