from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from remnant.models.conv_autoencoder import ConvMAE
from remnant.models.masked_convolutions import ConvEncoder
from tests.support.literal_convolutions import literal_maps
from tests.support.worlds import SEED_OFFSET, seeded


def make_network(shape: tuple[int, int, int] = (16, 16, 3)) -> ConvMAE:
    torch.manual_seed(SEED_OFFSET)
    network = ConvMAE(image_shape=shape, patch_size=4, channels=(6, 8), stem_channels=5)
    network.classifier.grow(3)
    return network


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed))


def spread(visible: Tensor, unit: int) -> Tensor:
    return visible.repeat_interleave(unit, 1).repeat_interleave(unit, 2)[:, None]


def some_visible(network: ConvMAE, count: int, ratio: float = 0.75) -> Tensor:
    return network.visible_ids(torch.rand(count, network.num_patches, generator=seeded(4)), ratio)


@pytest.mark.parametrize("is_training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("rubbish", [7.0, float("inf"), float("nan")])
def test_hidden_pixels_can_be_anything(rubbish: float, is_training: bool) -> None:
    network = make_network().train(is_training)
    views, ids = noise(3, 3, 16, 16), some_visible(network, 3)
    pixels = spread(network._visible(ids), 4)
    outputs = []
    for hidden in (views, torch.full_like(views, rubbish)):
        shown = torch.where(pixels, views, hidden)
        encoded = copy.deepcopy(network).encode(shown, ids)
        outputs.append((network.classify(network.pool(encoded)), network.draw(encoded)))
    for first, second in zip(*outputs, strict=True):
        assert torch.equal(first, second)


def test_it_is_the_sum_over_visible_neighbours_written_out() -> None:
    network = make_network((8, 8, 3))
    views, ids = noise(3, 3, 8, 8), some_visible(network, 3, 0.5)
    visible = network._visible(ids)
    maps = network.encode(views, ids).main
    literal = literal_maps(network.encoder, views, visible)
    for image, cells in enumerate(literal):
        assert len(cells) == 2
        for row in range(2):
            for column in range(2):
                expected = cells.get((row, column), torch.zeros(8))
                assert torch.allclose(maps[image, :, row, column], expected, atol=1e-5)


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
def test_images_of_any_size_are_seen_and_drawn(shape: tuple[int, int, int]) -> None:
    network = make_network(shape)
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
