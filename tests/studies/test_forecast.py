"""What a study will take: counted the same anywhere, and never stopped by one run."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from remnant.planning import calibration
from remnant.planning.calibration import kind_of, measure_speed, saved_bytes_per_image
from remnant.studies import forecast as forecasts
from remnant.studies.forecast import Forecast, forecast
from remnant.terminal.tables import forecast_table
from tests.support.command_line import Command, tiny_config
from tests.support.small_study import tiny_run


def test_without_seconds_nothing_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(calibration.time, "perf_counter")
    (one,), unknown = forecast([tiny_run("one")], tmp_path, "a100", seconds=None)
    assert unknown == []
    assert one.hours is None
    assert one.gpu_hours == pytest.approx(one.flops / (0.3 * 312e12) / 3600)
    assert one.state == "to do"


def test_a_run_that_cannot_be_estimated_is_named_and_the_others_are(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = forecasts.estimate

    def estimate(config: Any) -> dict[str, Any]:
        if "spatial" in config.recipe:
            raise RuntimeError("noise is not enough\nfor this loss")
        return real(config)

    monkeypatch.setattr(forecasts, "estimate", estimate)
    shown = command("reproduce", "detail-domain", "--scale", "smoke", "--dry-run",
                    "--out", tmp_path)  # fmt: skip
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    name, reason = "digits-bimae-spatial-smoke", "RuntimeError: noise is not enough"
    assert f"cannot be estimated: {name} ({reason})" in lines
    assert any("digits-bimae-full-smoke" in line and "to do" in line for line in lines)
    assert "2 runs, 0 done" in lines[-1]


@pytest.mark.parametrize("width", [80, 120])
def test_images_flops_and_hours_are_shown_whole_however_long_a_name_is(width: int) -> None:
    name = "cifar100-mini-bimae-reconstruction-symmetric-order-dytox-3-seed-2"
    one = Forecast(tiny_run(name), "to do", 1_230_000, 4.56e15, 1, 7.8, 0.15, 5 << 30)
    console = Console(width=width, file=io.StringIO(), color_system=None)
    with console.capture() as shown:
        console.print(forecast_table([one], "a100", width))
    lines = shown.get().splitlines()
    assert max(map(len, lines)) <= width
    numbers = ["1.23 M", "4.56 P", "7.8 h", "9 min"] + (["5.00 GiB"] if width == 120 else [])
    titles = ["images", "FLOP", "here", "A100"] + (["GPU memory"] if width == 120 else [])
    assert re.split(r"\s{2,}|(?<=state) ", lines[0])[-len(titles) :] == titles
    assert all(number in lines[1] for number in numbers)
    assert "to do" in lines[1]
    assert "".join(line.split(" ")[0] for line in lines[1:]) == name


def test_saved_bytes_leave_out_weights_and_grow_with_the_area_of_images() -> None:
    small, large = (saved_bytes_per_image(tiny_config(data__image_size=size)) for size in (16, 32))
    assert small > 16 * 16 * 4  # a map of one channel
    assert math.isclose(large, 4 * small, rel_tol=0.1)


def test_seeds_and_orders_are_estimated_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    real = forecasts.estimate
    monkeypatch.setattr(forecasts, "estimate", lambda config: made.append(config) or real(config))
    runs = [tiny_run("one"), tiny_run("two", seed=1), tiny_run("other", stream__num_tasks=4)]
    known, _ = forecast(runs, tmp_path, "a100", seconds=None)
    assert [one.run.name for one in known] == ["one", "two", "other"]
    assert len(made) == 2
    assert known[0].flops == known[1].flops != known[2].flops


def test_steps_are_timed_in_the_precision_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rounded: list[bool] = []
    real = calibration._steps_per_second  # pyright: ignore[reportPrivateUsage]

    def timed(*inputs: Any) -> float:
        rounded.append(torch.is_autocast_enabled("cpu"))
        return real(*inputs)

    monkeypatch.setattr(calibration, "_steps_per_second", timed)
    exact, half = tiny_config(), tiny_config(training__precision="bf16-mixed")
    for config in (exact, half):
        assert measure_speed(config, 0.01).flops_per_second > 0
    assert rounded == [False, True]
    assert kind_of(exact) != kind_of(half)
