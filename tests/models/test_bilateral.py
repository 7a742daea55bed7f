from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from remnant.losses import detail_loss, reconstruction_loss
from remnant.models.bilateral import BilateralMAE
from tests.support.literal_bilateral import LiteralBilateralMAE
from tests.support.worlds import seeded

SMALL = {"width": 16, "depth": 3, "head_width": 4, "mlp_width": 24, "fusion_mlp_width": 20}
WORLDS = [  # image_shape, patch_size, frequency_per
    ((8, 8, 3), 2, "image"),
    ((24, 40, 1), 8, "image"),
    ((24, 40, 1), 8, "patch"),
]


def small_network(
    image_shape: tuple[int, int, int] = (8, 8, 3), patch_size: int = 2, **options: object
) -> BilateralMAE:
    """A network with large weights everywhere, so that no part can be left out unnoticed."""
    generator = seeded(0)
    network = BilateralMAE(
        image_shape=image_shape,
        patch_size=patch_size,
        **{**SMALL, **options},  # type: ignore[arg-type]
    )
    network.classifier.grow(5)
    for parameter in network.parameters():
        parameter.data.normal_(std=0.3, generator=generator)
    return network.double()


def some_views(count: int) -> Tensor:
    generator = seeded(2)
    return torch.randn(count, 3, 8, 8, dtype=torch.float64, generator=generator)


def some_mask(network: BilateralMAE, count: int, mask_ratio: float) -> Tensor:
    noise = torch.rand(count, network.num_patches, generator=seeded(3))
    return network.visible_ids(noise, mask_ratio)


class World:
    """A network, its literal twin, three images and their masks."""

    def __init__(self, image_shape: tuple[int, int, int], patch_size: int, per: str) -> None:
        self.network = small_network(image_shape, patch_size, frequency_per=per)
        self.twin = LiteralBilateralMAE(
            self.network,
            image_shape=image_shape,
            patch_size=patch_size,
            head_width=SMALL["head_width"],
            depth=SMALL["depth"],
            frequency_per=per,
        )
        height, width, channels = image_shape
        generator = seeded(1)
        self.views = torch.randn(
            3, channels, height, width, dtype=torch.float64, generator=generator
        )
        noise = torch.rand(3, 3, self.network.num_patches, generator=generator)
        ratios = (0.75, 0.75, 0.4)
        self.masks = [
            self.network.visible_ids(one, ratio) for one, ratio in zip(noise, ratios, strict=True)
        ]

    def literal(self, function: Callable[[Tensor, list[int]], Tensor]) -> Tensor:
        """`function` of each image with its own visible patches, one after another."""
        ids = self.masks[0].tolist()
        rows = [function(view, visible) for view, visible in zip(self.views, ids, strict=True)]
        return torch.stack(rows)


@pytest.fixture(params=WORLDS, ids=str)
def world(request: pytest.FixtureRequest) -> World:
    return World(*request.param)


def assert_close(fast: Tensor, literal: Tensor) -> None:
    assert fast.shape == literal.shape
    torch.testing.assert_close(fast, literal, rtol=1e-5, atol=1e-5)


def parameters_with_gradient(network: nn.Module, loss: Tensor) -> set[str]:
    network.zero_grad()
    loss.backward()
    return {
        name
        for name, parameter in network.named_parameters()
        if parameter.grad is not None and bool((parameter.grad != 0).any())
    }


def parts(network: nn.Module, *prefixes: str) -> set[str]:
    return {name for name, _ in network.named_parameters() if name.startswith(prefixes)}


# ------------------------------------------------------------------------------------ the equations


def test_e1_first_block_equals_its_literal_twin(world: World) -> None:
    assert_close(
        world.network.encode_first(world.views, world.masks[0]), world.literal(world.twin.first)
    )


def test_e2_scores_equal_a_full_fusion_block_of_which_one_token_is_used(world: World) -> None:
    network = world.network
    first = network.encode_first(world.views, world.masks[0])
    scores = network.classify(network.fuse(network.encode_rest(first), network.detail(first)))
    assert_close(scores, world.literal(world.twin.scores))


def test_e3_and_e6_main_reconstruction_equals_its_literal_twin(world: World) -> None:
    network, mask = world.network, world.masks[0]
    main = network.encode_rest(network.encode_first(world.views, mask))
    assert_close(network.decode(main, mask), world.literal(world.twin.main_image))


def test_e4_detail_reconstruction_equals_its_literal_twin(world: World) -> None:
    network, twin, mask = world.network, world.twin, world.masks[0]
    fine = network.decode(network.detail(network.encode_first(world.views, mask)), mask)
    assert_close(
        network.inverse(network.high_pass(fine)),
        world.literal(
            lambda view, visible: twin.detail_image(
                twin.decode(twin.detail(twin.first(view, visible)), visible)
            )
        ),
    )


def test_e5_completion_and_its_loss_equal_their_literal_twins(world: World) -> None:
    completed = world.network.complete(world.views, world.masks[0])
    literal = world.literal(world.twin.completion)
    assert_close(completed, literal)
    squares = [(a - b) ** 2 for a, b in zip(world.views.flatten(), literal.flatten(), strict=True)]
    loss = reconstruction_loss(completed, world.views)
    assert_close(loss, torch.stack(squares).sum() / len(squares))


def test_e7_detail_loss_equals_its_literal_twin(world: World) -> None:
    network, views = world.network, world.views

    def main_image(mask: Tensor) -> Tensor:
        return network.decode(network.encode_rest(network.encode_first(views, mask)), mask)

    own = network.decode(
        network.detail(network.encode_first(views, world.masks[0])), world.masks[0]
    )
    target = network.high_pass(main_image(world.masks[2]) - main_image(world.masks[1]))
    fast = detail_loss(network.high_pass(own), target)
    masks = [mask.tolist() for mask in world.masks]
    losses = [world.twin.detail_loss(view, *ids) for view, *ids in zip(views, *masks, strict=True)]
    assert_close(fast, torch.stack(losses).mean())


def test_one_decoder_pass_for_both_branches_equals_two(world: World) -> None:
    network, mask = world.network, world.masks[0]
    first = network.encode_first(world.views, mask)
    main, detail = network.encode_rest(first), network.detail(first)
    coarse, fine = network.decode_both(main, detail, mask)
    torch.testing.assert_close(coarse, network.decode(main, mask))
    torch.testing.assert_close(fine, network.decode(detail, mask))


# -------------------------------------------------------------------------------------------- masks


def test_hidden_pixels_are_never_read() -> None:
    network = small_network()
    views = some_views(2)
    mask = some_mask(network, 2, 0.75)
    spoiled = torch.full_like(views, float("nan"))
    for image, ids in enumerate(mask.tolist()):
        for place in ids:
            rows = slice(place // 4 * 2, place // 4 * 2 + 2)
            columns = slice(place % 4 * 2, place % 4 * 2 + 2)
            spoiled[image, :, rows, columns] = views[image, :, rows, columns]
    assert torch.equal(network.complete(spoiled, mask), network.complete(views, mask))


def test_the_order_of_visible_patches_tells_the_network_nothing() -> None:
    network = small_network()
    views = some_views(2)
    mask = some_mask(network, 2, 0.5)
    torch.testing.assert_close(network.complete(views, mask.flip(1)), network.complete(views, mask))


def test_showing_every_patch_equals_naming_every_patch() -> None:
    network = small_network()
    views = some_views(2)
    everything = some_mask(network, 2, 0.0)
    first = network.encode_first(views, None)
    torch.testing.assert_close(first, network.encode_first(views, everything))
    torch.testing.assert_close(network.decode(first, None), network.decode(first, everything))


def test_the_decoder_knows_where_a_token_belongs() -> None:
    network = small_network()
    tokens = torch.randn(1, 5, 16, dtype=torch.float64)
    one = network.decode(tokens, torch.tensor([[0, 5, 6, 11]]))
    other = network.decode(tokens, torch.tensor([[0, 5, 6, 12]]))
    assert (one - other).abs()[0, :, 6:, 2:6].max() > 1e-3  # places 13 and 14: hidden in both
    hidden = one.unflatten(3, (4, 2)).unflatten(2, (4, 2))[
        0, :, 3, :, 1:
    ]  # the last row of patches
    assert (hidden[:, :, 0] - hidden[:, :, 1]).abs().max() > 1e-3  # mask tokens differ by place


# ---------------------------------------------------------------------------------------- gradients


def test_reconstruction_trains_everything_but_fusion_and_classifier() -> None:
    network = small_network()
    views = some_views(4)
    completed = network.complete(views, some_mask(network, 4, 0.75))
    trained = parameters_with_gradient(network, reconstruction_loss(completed, views))
    assert "decoder.mask_token" in trained
    assert trained == parts(network, "encoder", "detail_branch", "decoder")


def test_classification_trains_everything_but_the_decoder() -> None:
    network = small_network()
    first = network.encode_first(some_views(4), some_mask(network, 4, 0.75))
    scores = network.classify(network.fuse(network.encode_rest(first), network.detail(first)))
    loss = nn.functional.cross_entropy(scores, torch.tensor([0, 1, 2, 3]))
    expected = parts(network, "encoder", "detail_branch", "fusion", "classifier")
    assert parameters_with_gradient(network, loss) == expected


@pytest.mark.parametrize("is_spatial", [False, True])
def test_detail_loss_trains_the_detail_path_with_finite_gradients(is_spatial: bool) -> None:
    network = small_network()
    views = some_views(4)
    mask = some_mask(network, 4, 0.75)
    spectrum = network.high_pass(
        network.decode(network.detail(network.encode_first(views, mask)), mask)
    )
    target = network.high_pass(views)
    if is_spatial:
        spectrum, target = network.inverse(spectrum), network.inverse(target)
    trained = parameters_with_gradient(network, detail_loss(spectrum, target))
    shared = "encoder.patch_embedding", "encoder.class_token", "encoder.first"
    assert trained == parts(network, *shared, "detail_branch", "decoder")
    for name in trained:
        assert torch.isfinite(network.get_parameter(name).grad).all()


# --------------------------------------------------------------------------------------- prediction


@pytest.mark.parametrize("has_detail_branch", [True, False])
def test_prediction_is_one_encoder_pass_and_no_decoder(has_detail_branch: bool) -> None:
    network = small_network(has_detail_branch=has_detail_branch)
    calls: list[str] = []
    for name in ("encoder.patch_embedding", "encoder.first", "encoder.rest", "decoder"):
        network.get_submodule(name).register_forward_hook(lambda *_, name=name: calls.append(name))
    scores = network.scores(some_views(2))
    assert scores.shape == (2, 5)
    assert calls == ["encoder.patch_embedding", "encoder.first", "encoder.rest"]


def test_prediction_equals_the_literal_twin_with_every_patch_visible(world: World) -> None:
    everything = list(range(world.network.num_patches))
    assert_close(
        world.network.scores(world.views),
        world.literal(lambda view, _: world.twin.scores(view, everything)),
    )


@pytest.mark.parametrize("has_detail_branch", [True, False])
def test_pooled_patches_are_weighed_by_their_own_scores(has_detail_branch: bool) -> None:
    network = small_network(pools_patches=True, has_detail_branch=has_detail_branch)
    plain = small_network(has_detail_branch=has_detail_branch)
    plain.load_state_dict(network.state_dict(), strict=False)
    views = some_views(3)
    encoded = network.encode(views, some_mask(network, 3, 0.5))
    weight, bias = network.patch_score.weight[0].tolist(), network.patch_score.bias.item()
    for index, tokens in enumerate(encoded.main.tolist()):
        scores = [bias + sum(a * b for a, b in zip(weight, token, strict=True))
                  for token in tokens[1:]]  # fmt: skip
        whole = sum(math.exp(score) for score in scores)
        shares = [math.exp(score) / whole for score in scores]
        columns = zip(*tokens[1:], strict=True)
        pooled = [sum(a * b for a, b in zip(shares, column, strict=True)) for column in columns]
        swapped = encoded.main.clone()
        swapped[index, 0] = torch.tensor(pooled, dtype=torch.float64)
        expected = plain.fuse(swapped, encoded.detail)[index]
        assert_close(network.pool(encoded)[index], expected)


def test_the_class_token_is_not_read_where_patches_are_pooled() -> None:
    network = small_network(pools_patches=True)
    encoded = network.encode(some_views(2), some_mask(network, 2, 0.5))
    moved = encoded.main.clone()
    moved[:, 0] += 1
    assert torch.equal(network.fuse(moved, encoded.detail), network.pool(encoded))


def test_a_stem_of_two_layers_sees_one_patch_at_a_time() -> None:
    network = small_network(has_mlp_stem=True)
    views, mask = some_views(2), some_mask(small_network(), 2, 0.5)
    (first, norm, _, second) = network.encoder.patch_embedding
    tokens = network.encoder.embed(views, mask)
    for index, ids in enumerate(mask.tolist()):
        for place, patch_id in enumerate(ids):
            row, column = divmod(patch_id, 4)
            pixels = views[index, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].flatten()
            hidden = first.weight @ pixels + first.bias
            spread = (hidden.var(correction=0) + norm.eps).sqrt()
            hidden = (hidden - hidden.mean()) / spread * norm.weight + norm.bias
            hidden = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))
            token = second.weight @ hidden + second.bias + network.encoder.position_code[patch_id]
            assert_close(tokens[index, place + 1], token)


def test_without_detail_branch_the_feature_is_the_normalised_main_class_token() -> None:
    network = small_network(has_detail_branch=False)
    assert not parts(network, "detail_branch", "fusion")
    views = some_views(2)
    main = network.encode_rest(network.encode_first(views, None))
    torch.testing.assert_close(network.features(views), main[:, 0])
    mask = some_mask(network, 2, 0.75)
    main = network.encode_rest(network.encode_first(views, mask))
    torch.testing.assert_close(network.complete(views, mask), network.decode(main, mask))


# ---------------------------------------------------------------------------------------- the whole


@pytest.mark.parametrize(
    ("side", "patch_size", "mlp_width", "millions"),
    [(32, 4, 1536, 12.94), (32, 4, 768, 9.40), (224, 16, 1536, 13.5)],
)
def test_parameters_are_as_many_as_the_specification_says(
    side: int, patch_size: int, mlp_width: int, millions: float
) -> None:
    with torch.device("meta"):
        network = BilateralMAE(
            image_shape=(side, side, 3), patch_size=patch_size, mlp_width=mlp_width
        )
    count = sum(parameter.numel() for parameter in network.parameters()) + 100 * (384 + 1)
    assert count == pytest.approx(millions * 1e6, rel=0.005)


def test_equal_generators_give_equal_networks() -> None:
    states = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        generator = seeded(3)
        network = BilateralMAE(image_shape=(8, 8, 3), patch_size=4, generator=generator, **SMALL)
        states.append(network.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert 0.005 < float(states[0]["encoder.class_token"].std()) < 0.05


def test_the_position_code_is_aligned_and_not_part_of_the_saved_state() -> None:
    network = small_network()
    assert set(network.state_dict()) == {name for name, _ in network.named_parameters()}


def test_the_network_runs_in_mixed_precision() -> None:
    network = small_network().float()
    views = some_views(2).float()
    mask = some_mask(network, 2, 0.75)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        completed, scores = network.complete(views, mask), network.scores(views)
    torch.testing.assert_close(completed, network.complete(views, mask), rtol=0.1, atol=0.3)
    assert scores.shape == (2, 5)


def test_the_network_exports_for_any_batch_size() -> None:
    network, views = small_network().eval(), some_views(4)
    exported = torch.export.export(
        network, (views[:2],), dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    torch.testing.assert_close(exported.module()(views), network(views))


def test_a_patch_size_that_does_not_divide_the_image_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(8 x 10\); got 4"):
        small_network((8, 10, 3), 4)
