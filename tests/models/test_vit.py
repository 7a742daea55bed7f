from __future__ import annotations

import math

import pytest
import torch

from remnant.models.vit import Block, initialize, sine_cosine_code
from tests.support.worlds import seeded


def random_block() -> Block:
    block = Block(width=16, head_width=4, mlp_width=24).double()
    generator = seeded(0)
    for parameter in block.parameters():
        parameter.data.normal_(std=0.3, generator=generator)
    return block


def test_asking_for_some_tokens_equals_computing_all_and_dropping_the_others() -> None:
    block = random_block()
    tokens = torch.randn(3, 7, 16, dtype=torch.float64)
    for count in (1, 2, 7):
        torch.testing.assert_close(block(tokens, num_queries=count), block(tokens)[:, :count])


def test_asking_for_some_tokens_gives_the_same_gradients() -> None:
    block = random_block()
    tokens = torch.randn(3, 7, 16, dtype=torch.float64)
    parameters = list(block.parameters())
    asked = torch.autograd.grad((block(tokens, num_queries=1) ** 2).sum(), parameters)
    dropped = torch.autograd.grad((block(tokens)[:, :1] ** 2).sum(), parameters)
    for one, other in zip(asked, dropped, strict=True):
        torch.testing.assert_close(one, other)


def test_block_does_not_mix_images() -> None:
    block = random_block()
    tokens = torch.randn(4, 5, 16, dtype=torch.float64)
    torch.testing.assert_close(block(tokens)[2], block(tokens[2:3])[0])


def test_position_code_tells_column_then_row_by_waves_of_falling_rate() -> None:
    code = sine_cosine_code(rows=2, columns=3, width=8)
    row, column = 1, 2
    expected = [math.sin(column), math.sin(column / 100), math.cos(column), math.cos(column / 100)]
    expected += [math.sin(row), math.sin(row / 100), math.cos(row), math.cos(row / 100)]
    torch.testing.assert_close(code[row * 3 + column], torch.tensor(expected))


def test_every_place_has_its_own_position_code() -> None:
    code = sine_cosine_code(rows=14, columns=9, width=32)
    assert len(torch.unique(code, dim=0)) == 14 * 9


def test_width_that_cannot_be_split_into_heads_or_waves_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of head_width"):
        Block(width=16, head_width=5, mlp_width=8)
    with pytest.raises(ValueError, match="multiple of 4"):
        sine_cosine_code(2, 2, width=6)


def test_initial_weights_come_from_the_given_generator_alone() -> None:
    blocks = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        block = Block(width=8, head_width=4, mlp_width=8)
        initialize(block, seeded(5))
        blocks.append(block)
    for one, other in zip(blocks[0].parameters(), blocks[1].parameters(), strict=True):
        assert torch.equal(one, other)
