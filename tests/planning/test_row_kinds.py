"""Forecasts from a few rows count what a method does with rare ones too, as often as it does it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from remnant.config import RunConfig
from remnant.methods import Method
from remnant.phases import Batch
from remnant.planning import calibration
from remnant.planning.calibration import first_network, measure_speed, saved_bytes_per_image
from remnant.planning.flops import step_flops, train_flops
from tests.support.command_line import tiny_config


def decoding(ratio: float) -> RunConfig:
    """A run that redraws this share of its images."""
    return tiny_config("digits-bimae-patches", method__decoded_ratio=ratio)


def flops_of(config: RunConfig) -> int:
    return train_flops(*first_network(config))


@pytest.mark.parametrize("forecast", [flops_of, saved_bytes_per_image])
def test_images_that_are_rarely_redrawn_count_by_their_share(
    forecast: Callable[[RunConfig], int],
) -> None:
    hardly, some, all_of_them = (forecast(decoding(ratio)) for ratio in (0.01, 0.1, 1.0))
    assert (some - hardly) / (all_of_them - hardly) == pytest.approx(0.09 / 0.99, rel=0.25)


def test_the_speed_is_that_of_the_rows_that_were_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[tuple[Method, Batch]] = []

    def one_step_per_second(method: Method, batch: Batch, seconds: float) -> float:
        timed.append((method, batch))
        return 1.0

    monkeypatch.setattr(calibration, "_steps_per_second", one_step_per_second)
    speed = measure_speed(decoding(0.1), 0.01)  # none of a batch of two is redrawn
    ((method, batch),) = timed
    assert speed.flops_per_second == step_flops(method, batch)
