"""Counting from shapes says what counting real products says, and disturbs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from remnant.planning import rehearsal
from remnant.planning.run_estimate import estimate
from remnant.planning.shape_flops import ShapeFlops
from remnant.training.arithmetic import FlopCount
from tests.support.command_line import tiny_config


def conv_step() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 5)
    )
    images = torch.rand(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    network.to(memory_format=torch.channels_last)(images).sum().backward()


def attention_step() -> None:
    tokens = torch.rand(2, 4, 9, 8, requires_grad=True)
    functional.scaled_dot_product_attention(tokens, tokens, tokens).sum().backward()


@pytest.mark.parametrize("step", [conv_step, attention_step])
def test_shapes_alone_give_the_same_count(step: Callable[[], None]) -> None:
    with FlopCount() as real:
        step()
    with ShapeFlops() as planned:
        step()
    assert planned.flops == real.flops > 0


def test_an_inner_count_is_part_of_the_outer_one() -> None:
    with ShapeFlops() as outer:
        conv_step()
        with ShapeFlops() as inner:
            conv_step()
    assert outer.flops == 2 * inner.flops > 0


def test_no_product_is_computed_and_no_random_number_used_up() -> None:
    state = torch.get_rng_state()
    left, right = torch.zeros(4, 6), torch.zeros(6, 3)
    with ShapeFlops() as count:
        out = left @ right
    assert count.flops == 2 * 4 * 6 * 3
    assert out.shape == (4, 3)
    assert out.abs().sum() > 0  # zeros times zeros, had anything been computed
    assert torch.equal(torch.get_rng_state(), state)


def test_runs_that_differ_in_their_stream_alone_are_rehearsed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []
    real = rehearsal.build_method

    def build(*arguments: Any) -> Any:
        made.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(rehearsal, "build_method", build)
    monkeypatch.setattr(rehearsal, "_LAST", {})
    four = estimate(tiny_config(stream__num_classes=8, stream__num_tasks=4))["train_flops"]
    eight = estimate(tiny_config(stream__num_classes=8, stream__num_tasks=8))["train_flops"]
    assert len(made) == 1
    assert four != eight
    monkeypatch.setattr(rehearsal, "_LAST", {})
    assert estimate(tiny_config(stream__num_classes=8, stream__num_tasks=8))["train_flops"] == eight
    estimate(tiny_config(stream__num_classes=8, stream__num_tasks=8, method__first__epochs=2))
    assert len(made) == 3
