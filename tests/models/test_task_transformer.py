from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from remnant.models.task_transformer import (
    LocalBlock,
    PositionalAttention,
    TaskAttention,
    TaskBlock,
    TaskTransformer,
    patch_offsets,
)
from tests.support.worlds import seeded

GRID = (3, 4)


def shake(network: nn.Module, seed: int = 0) -> Any:
    """Give every weight a large value, so that no part can be left out unnoticed."""
    source = seeded(seed)
    for parameter in network.parameters():
        parameter.data.normal_(std=0.4, generator=source)
    return network.double()


def make_network(num_tasks: int = 3, **changes: Any) -> TaskTransformer:
    sizes: dict[str, Any] = {
        "patch_size": 4,
        "width": 16,
        "depth": 2,
        "head_width": 4,
        "mlp_width": 24,
        "drop_path_ratio": 0.5,
        "initial_deviation": 0.02,
    }
    network = TaskTransformer((12, 16, 3), **(sizes | changes))
    for index in range(num_tasks):
        network.grow(index + 1)
    return shake(network)


def views(count: int = 5) -> Tensor:
    source = seeded(1)
    return torch.randn(count, 3, 12, 16, dtype=torch.float64, generator=source)


def some_known(num_rows: int, num_known: int = 5) -> Tensor:
    """bool [n, 3, 4]; the first and last image are whole, the others are known in part."""
    noise = torch.rand(num_rows, 12, generator=seeded(2))
    known = (noise.argsort(dim=1).argsort(dim=1) < num_known).view(-1, *GRID)
    known[[0, -1]] = True
    return known


def num_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


# -------------------------------------------------------------------------------------------- sizes


def test_blocks_have_as_many_parameters_as_the_published_ones() -> None:
    assert num_parameters(LocalBlock(384, 32, 1536, (8, 8))) == 1_773_372
    assert num_parameters(TaskBlock(384, 32, 1536)) == 1_773_312


@pytest.mark.parametrize(
    ("num_tasks", "num_classes", "expected"),
    [(10, 10, 10_733_584), (20, 5, 10_745_104), (50, 2, 10_779_664)],
)
def test_a_task_costs_a_token_and_a_head(num_tasks: int, num_classes: int, expected: int) -> None:
    network = TaskTransformer(
        (32, 32, 3),
        patch_size=4,
        width=384,
        depth=5,
        head_width=32,
        mlp_width=1536,
        drop_path_ratio=0.1,
        initial_deviation=0.02,
    )
    for _ in range(num_tasks):
        network.grow(num_classes)
    assert network.num_classes == 100
    assert num_parameters(network) == expected


# ---------------------------------------------------------------------------------- local attention


def softmax(logits: list[float]) -> list[float]:
    powers = [math.exp(logit) for logit in logits]
    return [power / sum(powers) for power in powers]


def slow_attention(layer: PositionalAttention, tokens: Tensor, places: list[int]) -> Tensor:
    """[convit] gated positional self-attention of one image [N, D], a pair of patches at a time."""
    size, (count, width) = layer.head_width, tokens.shape
    queries, keys = (tokens @ layer.queries_keys.weight.T).split(width, dim=1)
    values = tokens @ layer.values.weight.T
    mixed = torch.zeros_like(tokens)
    for head in range(width // size):
        part = slice(head * size, (head + 1) * size)
        gate = 1 / (1 + math.exp(-float(layer.gate[head])))
        for here in range(count):
            content, position = [], []
            for there in range(count):
                content.append(float(queries[here, part] @ keys[there, part]) / math.sqrt(size))
                right = places[there] % GRID[1] - places[here] % GRID[1]
                down = places[there] // GRID[1] - places[here] // GRID[1]
                weights = layer.positions.weight[head].tolist()
                position.append(
                    weights[0] * right
                    + weights[1] * down
                    + weights[2] * (right**2 + down**2)
                    + float(layer.positions.bias[head])
                )
            shares = [
                (1 - gate) * by_content + gate * by_position
                for by_content, by_position in zip(softmax(content), softmax(position), strict=True)
            ]
            for there in range(count):
                mixed[here, part] += shares[there] / sum(shares) * values[there, part]
    return mixed @ layer.project.weight.T + layer.project.bias


@torch.no_grad()
def test_local_attention_is_that_of_the_paper_written_pair_by_pair() -> None:
    layer = shake(PositionalAttention(8, 4, GRID))
    tokens = torch.randn(2, 12, 8, dtype=torch.float64)
    found = layer(tokens)
    for image in range(2):
        torch.testing.assert_close(
            found[image], slow_attention(layer, tokens[image], list(range(12)))
        )


@torch.no_grad()
def test_kept_patches_attend_at_their_own_places() -> None:
    layer = shake(PositionalAttention(8, 4, GRID))
    tokens = torch.randn(2, 4, 8, dtype=torch.float64)
    visible_ids = torch.tensor([[0, 5, 6, 11], [1, 2, 8, 9]])
    found = layer(tokens, visible_ids)
    for image in range(2):
        expected = slow_attention(layer, tokens[image], visible_ids[image].tolist())
        torch.testing.assert_close(found[image], expected)


def test_offsets_point_from_the_first_patch_to_the_second() -> None:
    offsets = patch_offsets(*GRID)
    assert offsets[1, 6].tolist() == [1, 1, 2]  # row 0, column 1 to row 1, column 2
    assert offsets[6, 1].tolist() == [-1, -1, 2]
    assert offsets[3, 8].tolist() == [-3, 2, 13]


@torch.no_grad()
def test_twelve_heads_start_as_a_convolution_of_three_by_three() -> None:
    network = make_start(width=48)
    layer = network.blocks[0].attention
    assert torch.equal(layer.values.weight, torch.eye(48))
    assert torch.equal(layer.gate, torch.ones(12))
    strongest = layer.positions(layer.offsets).argmax(dim=1)[5]  # of the patch at row 1, column 1
    cells = [(row, column) for column in range(3) for row in range(3)]
    assert strongest[:9].tolist() == [row * GRID[1] + column for row, column in cells]
    assert layer.positions.weight[9:].abs().max() < 0.1  # the other heads are as drawn


@torch.no_grad()
def test_four_heads_start_as_a_convolution_of_two_by_two() -> None:
    layer = make_start(width=16).blocks[0].attention
    peaks = [layer.positions.weight[head, :2] / 2 for head in range(4)]
    assert [peak.tolist() for peak in peaks] == [[x, y] for x in (-0.5, 0.5) for y in (-0.5, 0.5)]


def make_start(width: int) -> Any:
    """A network as it starts, before anything is learned."""
    return TaskTransformer(
        (12, 16, 3),
        patch_size=4,
        width=width,
        depth=1,
        head_width=4,
        mlp_width=8,
        drop_path_ratio=0.0,
        initial_deviation=0.02,
    )


# ----------------------------------------------------------------------------------- task attention


def literal_task_block(block: TaskBlock, token: Tensor, patches: Tensor) -> Tensor:
    """[dytox] one run for one token [D]: it is put before the patches [N, D] of one image."""
    attention, size = block.attention, block.attention.head_width
    both = block.attention_norm(torch.cat([token[None], patches]))  # [1 + N, D]
    query, keys, values = attention.query(both[:1]), attention.key(both), attention.value(both)
    mixed = []
    for start in range(0, len(token), size):
        part = slice(start, start + size)
        weights = (query[:, part] @ keys[:, part].T / math.sqrt(size)).softmax(dim=1)
        mixed.append(weights @ values[:, part])
    token = token + attention.project(torch.cat(mixed, dim=1))[0]
    return token + block.mlp(block.mlp_norm(token))


def test_asking_all_tasks_at_once_equals_one_run_per_token() -> None:
    block = shake(TaskBlock(16, 4, 24))
    tokens = torch.randn(3, 16, dtype=torch.float64)
    patches = torch.randn(4, 12, 16, dtype=torch.float64)
    parameters = list(block.parameters())
    expected = torch.stack(
        [
            torch.stack([literal_task_block(block, token, image) for token in tokens])
            for image in patches
        ]
    )
    found = block(tokens, patches)
    torch.testing.assert_close(found, expected)
    slow, fast = (torch.autograd.grad((x**2).sum(), parameters) for x in (expected, found))
    for one, other in zip(slow, fast, strict=True):
        torch.testing.assert_close(one, other)


def test_task_tokens_do_not_see_one_another() -> None:
    block = shake(TaskBlock(16, 4, 24))
    tokens = torch.randn(3, 16, dtype=torch.float64)
    patches = torch.randn(2, 12, 16, dtype=torch.float64)
    torch.testing.assert_close(block(tokens, patches)[:, :2], block(tokens[:2], patches))


# -------------------------------------------------------------------------------------- the network


def test_each_head_scores_the_embedding_of_its_own_task() -> None:
    network = make_network(num_tasks=2)
    embeddings = network.embed(views())
    moved = embeddings.clone()
    moved[:, 1] += torch.randn(16, dtype=torch.float64)
    before, after = network.classify(embeddings), network.classify(moved)
    assert before.shape == (5, 3)
    assert torch.equal(before[:, :1], after[:, :1])
    assert bool((before[:, 1:] != after[:, 1:]).all())


def test_growing_leaves_the_old_scores_as_they_were() -> None:
    network = make_network(num_tasks=2)
    before = network(views())
    network.grow(2)
    network.double()
    torch.testing.assert_close(network(views())[:, :3], before, rtol=1e-12, atol=1e-12)
    assert network(views()).shape == (5, 5)


def test_images_known_in_part_enter_by_their_known_patches_alone() -> None:
    network, pictures, known = make_network(), views(), some_known(5)
    hidden = ~known.repeat_interleave(4, dim=1).repeat_interleave(4, dim=2)[:, None]
    repainted = torch.where(hidden, torch.randn_like(pictures), pictures)
    found = network(pictures, known)
    torch.testing.assert_close(network(repainted, known), found)
    torch.testing.assert_close(found[[0, -1]], network(pictures)[[0, -1]])
    assert not torch.allclose(found[1], network(pictures)[1])


def test_a_batch_of_whole_and_masked_images_equals_them_one_by_one() -> None:
    network, pictures, known = make_network(), views(), some_known(5)
    draws = torch.rand(5, network.num_draws, dtype=torch.float64)
    found = network(pictures, known, draws)
    for row in range(5):
        one = slice(row, row + 1)
        torch.testing.assert_close(found[one], network(pictures[one], known[one], draws[one]))


def test_masked_images_of_unlike_numbers_of_patches_are_refused() -> None:
    known = some_known(5)
    known[1] = True
    known[1, 0, 0] = False
    with pytest.raises(ValueError, match="equally many patches"):
        make_network()(views(), known)


# ----------------------------------------------------------------------------------------- dropping


def test_residuals_are_dropped_more_often_from_block_to_block() -> None:
    network = make_network(depth=4, drop_path_ratio=0.4)
    assert network.drop_ratios == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert network.num_draws == 2 * (4 + 3)
    draws = torch.full((1, network.num_draws), 0.25, dtype=torch.float64)
    factors = network._residual_factors(draws)
    assert factors is not None
    expected = [1, 1 / 0.9, 1 / 0.8, 0, 0, 0, 0]  # three task tokens share the last ratio
    assert factors[0, :, 0].tolist() == factors[0, :, 1].tolist() == pytest.approx(expected)


def test_without_its_residuals_an_embedding_is_the_task_token() -> None:
    network = make_network(num_tasks=2)
    draws = torch.zeros(5, network.num_draws, dtype=torch.float64)
    draws[2, -2:] = 1  # the last task's residuals of one image are kept
    embeddings = network.embed(views(), None, draws)
    for row in range(5):
        assert torch.equal(embeddings[row, 0], network.task_tokens[0])
        assert torch.equal(embeddings[row, 1], network.task_tokens[1]) is (row != 2)


def test_residuals_keep_their_mean() -> None:
    network = make_network()
    draws = torch.rand(4000, network.num_draws, generator=seeded(0))
    factors = network._residual_factors(draws)
    assert factors is not None
    torch.testing.assert_close(factors.mean(dim=0), torch.ones(5, 2), atol=0.06, rtol=0)


def test_a_width_that_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of head_width"):
        PositionalAttention(16, 5, GRID)
    with pytest.raises(ValueError, match="multiple of head_width"):
        TaskAttention(16, 5)
