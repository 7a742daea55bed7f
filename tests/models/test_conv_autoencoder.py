from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from remnant.models.conv_autoencoder import ConvMAE
from remnant.models.masked_convolutions import ConvEncoder
from remnant.models.masked_network import Encoded
from tests.support.literal_convolutions import Cells, literal_detail, literal_maps
from tests.support.worlds import SEED_OFFSET, seeded


def make_network(shape: tuple[int, int, int] = (16, 16, 3), *, has_detail: bool = False) -> ConvMAE:
    torch.manual_seed(SEED_OFFSET)
    network = ConvMAE(
        image_shape=shape,
        patch_size=4,
        channels=(6, 8),
        stem_channels=5,
        has_detail_branch=has_detail,
    )
    network.classifier.grow(3)
    if has_detail:
        torch.nn.init.normal_(network.fusion.weight)  # as if it had learned
    return network


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed))


def spread(visible: Tensor, unit: int) -> Tensor:
    return visible.repeat_interleave(unit, 1).repeat_interleave(unit, 2)[:, None]


def compare_cells(maps: Tensor, literal: list[Cells]) -> None:
    """Maps [B, 8, 2, 2] of images of which two units are visible; hidden cells are 0."""
    for image, cells in enumerate(literal):
        assert len(cells) == 2
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
            expected = cells.get((row, column), torch.zeros(8))
            assert torch.allclose(maps[image, :, row, column], expected, atol=1e-5)


def some_visible(network: ConvMAE, count: int, ratio: float = 0.75) -> Tensor:
    return network.visible_ids(torch.rand(count, network.num_patches, generator=seeded(4)), ratio)


@pytest.mark.parametrize("is_training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("rubbish", [7.0, float("inf"), float("nan")])
@pytest.mark.parametrize("has_detail", [False, True], ids=["", "detail"])
def test_hidden_pixels_can_be_anything(rubbish: float, has_detail: bool, is_training: bool) -> None:
    network = make_network(has_detail=has_detail).train(is_training)
    views, ids = noise(3, 3, 16, 16), some_visible(network, 3)
    pixels = spread(network._visible(ids), 4)
    outputs = []
    for hidden in (views, torch.full_like(views, rubbish)):
        shown = torch.where(pixels, views, hidden)
        encoded = copy.deepcopy(network).encode(shown, ids)
        completed = copy.deepcopy(network).complete(shown, ids)
        outputs.append((network.classify(network.pool(encoded)), completed))
    for first, second in zip(*outputs, strict=True):
        assert torch.equal(first, second)


def test_it_is_the_sum_over_visible_neighbours_written_out() -> None:
    network = make_network((8, 8, 3))
    views, ids = noise(3, 3, 8, 8), some_visible(network, 3, 0.5)
    visible = network._visible(ids)
    maps = network.encode(views, ids).main
    literal = literal_maps(network.encoder, views, visible)
    compare_cells(maps, literal)


def test_the_detail_branch_is_three_linear_layers_on_each_unit_written_out() -> None:
    network = make_network((8, 8, 3), has_detail=True)
    views, ids = noise(3, 3, 8, 8), some_visible(network, 3, 0.5)
    detail = network.encode(views, ids).detail
    assert detail is not None
    firsts = literal_maps(network.encoder, views, network._visible(ids), num_stages=1)
    compare_cells(detail, [literal_detail(network.detail_branch, cells) for cells in firsts])


def test_both_branches_are_drawn_and_classified() -> None:
    network = make_network(has_detail=True)
    views, ids = noise(2, 3, 16, 16), some_visible(network, 2)
    encoded = network.encode(views, ids)
    assert encoded.detail is not None
    coarse, fine = network.draw_both(encoded)
    torch.testing.assert_close(coarse, network.draw(encoded))
    alone = network.draw(Encoded(encoded.detail, None, ids))
    torch.testing.assert_close(fine, alone)
    finest = network.inverse(network.high_pass(alone))
    torch.testing.assert_close(network.complete(views, ids), coarse + finest)
    means = [one.sum(dim=(2, 3)) / ids.shape[1] for one in (encoded.main, encoded.detail)]
    torch.testing.assert_close(network.pool(encoded), means[0] + network.fusion(means[1]))


def test_a_new_detail_branch_changes_no_score() -> None:
    torch.manual_seed(SEED_OFFSET)
    network = ConvMAE(
        image_shape=(16, 16, 3),
        patch_size=4,
        channels=(6, 8),
        stem_channels=5,
        has_detail_branch=True,
    )
    views = noise(2, 3, 16, 16)
    plain = Encoded(network.encode(views, None).main, None, None)
    assert torch.equal(network.features(views), network.pool(plain))


def test_redrawing_counts_in_no_batch_statistics() -> None:
    network = make_network(has_detail=True).train()
    views, ids = noise(4, 3, 16, 16), some_visible(network, 4, 0.4)
    before = {name: one.clone() for name, one in network.named_buffers()}
    redrawn = network.redraw(views, ids)
    for name, one in network.named_buffers():
        assert torch.equal(one, before[name]), name
    encoded = network.encode(views, ids)  # by the same statistics, which now count
    torch.testing.assert_close(network.draw(encoded), redrawn)
    assert not torch.equal(
        network.encoder.norm.masked.running_mean, before["encoder.norm.masked.running_mean"]
    )


def test_the_mean_is_over_visible_cells() -> None:
    network = make_network()
    ids = some_visible(network, 2)
    encoded = network.encode(noise(2, 3, 16, 16), ids)
    cells = encoded.main.flatten(2).take_along_dim(ids[:, None], dim=2)  # [B, D, V]
    assert torch.allclose(network.pool(encoded), cells.mean(dim=2), atol=1e-6)


def test_whole_and_masked_images_have_batch_statistics_of_their_own() -> None:
    network = make_network().train()
    norm = network.encoder.norm
    assert norm.masked is not None
    before = norm.whole.running_mean.clone(), norm.masked.running_mean.clone()
    network.encode(noise(2, 3, 16, 16), some_visible(network, 2))
    assert torch.equal(norm.whole.running_mean, before[0])
    assert not torch.equal(norm.masked.running_mean, before[1])
    network.encode(noise(2, 3, 16, 16), None)
    assert not torch.equal(norm.whole.running_mean, before[0])


def test_a_single_visible_cell_can_be_normalised() -> None:
    network = make_network((8, 8, 3)).train()
    scores = network.masked_scores(noise(1, 3, 8, 8), torch.tensor([[2]]))
    assert scores.isfinite().all()


@pytest.mark.parametrize("shape", [(8, 8, 1), (16, 24, 3), (64, 64, 3)])
@pytest.mark.parametrize("has_detail", [False, True], ids=["", "detail"])
def test_images_of_any_size_are_seen_and_drawn(
    has_detail: bool, shape: tuple[int, int, int]
) -> None:
    network = make_network(shape, has_detail=has_detail)
    views = noise(2, shape[2], *shape[:2])
    assert network.scores(views).shape == (2, 3)
    assert network.complete(views, some_visible(network, 2)).shape == views.shape


def test_the_decoder_learns_and_its_mask_token_too() -> None:
    network = make_network()
    network.complete(noise(2, 3, 16, 16), some_visible(network, 2)).square().sum().backward()
    assert network.decoder is not None
    for name, parameter in network.decoder.named_parameters():
        assert parameter.grad is not None, name
        assert bool((parameter.grad != 0).any()), name


def test_a_unit_must_be_two_to_the_number_of_stages() -> None:
    with pytest.raises(ValueError, match="Set patch_size=4"):
        ConvMAE(image_shape=(16, 16, 3), patch_size=8, channels=(6, 8), stem_channels=5)


def test_units_must_divide_the_image() -> None:
    with pytest.raises(ValueError, match="must divide"):
        make_network((10, 16, 3))


def test_the_features_of_a_backbone_can_keep_their_sign() -> None:
    signed = ConvEncoder((6, 8), has_last_gelu=False)
    usual = ConvEncoder((6, 8))
    views = noise(4, 3, 16, 16)
    assert signed(views).min() < -0.2 < usual(views).min()


def test_the_sums_of_a_backbone_are_its_maps_before_the_last_gelu() -> None:
    encoder = ConvEncoder((6, 8)).eval()
    views = noise(2, 3, 16, 16)
    features, sums = encoder.with_sums(views)
    assert torch.allclose(features, encoder(views))
    assert [tuple(one[0].shape) for one in sums] == [(2, 6, 8, 8), (2, 8, 4, 4)]
    assert torch.allclose(torch.nn.functional.gelu(sums[-1][0]).mean(dim=(2, 3)), features)
