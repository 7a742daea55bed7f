from __future__ import annotations

from itertools import combinations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from remnant.views import augment
from remnant.views.augment import AugmentConfig, train_views

MEAN, STD = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)
FLIP, NO_FLIP = 0.25, 0.75
CENTRE = 0.5  # the middle one of an odd number of offsets


def random_images(seed: int, batch: int = 3, height: int = 8, width: int = 12) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (batch, height, width, 3), dtype=torch.uint8, generator=source)


def augmented(
    images: Tensor, draws: Tensor, config: AugmentConfig, is_known: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """The augmented batch as pixels again, so that results can be compared exactly."""
    views, known = train_views(images, is_known, draws, config, MEAN, STD)
    return augment.to_images(views, MEAN, STD), known


def slow_crop_and_flip(image: Tensor, draw: list[float], padding: int) -> Tensor:
    height, width, _ = image.shape
    top = int(draw[0] * (2 * padding + 1)) - padding
    left = int(draw[1] * (2 * padding + 1)) - padding
    result = torch.zeros_like(image)
    for row in range(height):
        for column in range(width):
            source_row, source_column = row + top, column + left
            if 0 <= source_row < height and 0 <= source_column < width:
                target = width - 1 - column if draw[2] < 0.5 else column
                result[row, target] = image[source_row, source_column]
    return result


draw_rows = st.lists(st.floats(0, 1, exclude_max=True, width=16), min_size=9, max_size=9)


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), numbers=draw_rows, padding=st.integers(0, 5))
def test_crop_and_flip_equal_the_same_done_pixel_by_pixel(
    seed: int, numbers: list[float], padding: int
) -> None:
    images, draws = random_images(seed), torch.tensor(numbers).view(3, 3)
    result, known = augmented(images, draws, AugmentConfig(padding=padding))
    for image, draw, found in zip(images, draws.tolist(), result, strict=True):
        assert torch.equal(found, slow_crop_and_flip(image, draw, padding))
    assert known is None


def test_the_border_of_a_crop_is_black_before_normalising() -> None:
    images = torch.full((1, 8, 8, 3), 200, dtype=torch.uint8)
    views, _ = train_views(
        images, None, torch.tensor([[0.0, CENTRE, NO_FLIP]]), AugmentConfig(), MEAN, STD
    )
    black = -torch.tensor(MEAN) / torch.tensor(STD)
    torch.testing.assert_close(views[0, :, 0, 0], black)
    assert (views[0, :, 4:] > views[0, :, :4]).all()


@given(st.integers(0, 1000), st.integers(0, 6))
def test_middle_offsets_without_a_flip_change_nothing(seed: int, padding: int) -> None:
    images, draws = random_images(seed), torch.tensor([[CENTRE, CENTRE, NO_FLIP]] * 3)
    result, _ = augmented(images, draws, AugmentConfig(padding=padding))
    assert torch.equal(result, images)


def test_a_crop_alone_never_mirrors() -> None:
    images = torch.arange(2 * 6 * 6 * 1, dtype=torch.uint8).reshape(2, 6, 6, 1)
    draws = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.9]])
    config = augment.AugmentConfig(train="crop", padding=1)
    views, _ = augment.train_views(images, None, draws, config, (0.0,), (1.0 / 255,))
    assert torch.equal(views, images.permute(0, 3, 1, 2).float())


@pytest.mark.parametrize("name", ["flip", "resized-crop-flip"])
@given(seed=st.integers(0, 1000), numbers=draw_rows)
def test_flipping_twice_gives_back_pixels_and_grid(
    name: str, seed: int, numbers: list[float]
) -> None:
    images, draws = random_images(seed), torch.tensor(numbers).view(3, 3)
    grid = torch.rand(3, 2, 3, generator=torch.Generator().manual_seed(seed)) < 0.5
    config = AugmentConfig.model_validate({"train": name})
    once, once_known = augmented(images, draws, config, grid)
    twice, twice_known = augmented(once, draws, config, once_known)
    assert torch.equal(twice, images)
    assert twice_known is not None
    assert torch.equal(twice_known, grid)


@given(seed=st.integers(0, 1000), numbers=draw_rows)
def test_a_partly_known_image_moves_by_whole_patches_and_its_grid_with_it(
    seed: int, numbers: list[float]
) -> None:
    draws, size = torch.tensor(numbers).view(3, 3), 4
    grid = torch.rand(3, 2, 3, generator=torch.Generator().manual_seed(seed)) < 0.5
    grid[:, 0, 0] = False
    # Known patches are white, the others grey, and the border is black.
    pixels = grid.repeat_interleave(size, dim=1).repeat_interleave(size, dim=2)
    images = torch.where(pixels[..., None].expand(-1, -1, -1, 3), 255, 99).to(torch.uint8)
    result, known = augmented(images, draws, AugmentConfig(padding=4), grid)
    assert known is not None
    assert torch.equal(known.flatten(1).sum(dim=1), grid.flatten(1).sum(dim=1))
    for image, draw, found, cells in zip(images, draws.tolist(), result, known, strict=True):
        down, right = (int(3 * draw[axis]) - 1 for axis in range(2))  # patches
        expected = torch.zeros_like(image)
        for row, column in product(range(8), range(12)):
            source = (row + size * down, column + size * right)
            if 0 <= source[0] < 8 and 0 <= source[1] < 12:
                expected[row, column] = image[source]
        assert torch.equal(found, expected.flip(1) if draw[2] < 0.5 else expected)
        shown = found[::size, ::size, 0]  # one pixel of each patch
        assert torch.equal(cells[shown != 0], shown[shown != 0] == 255)


def test_patches_larger_than_the_padding_keep_their_frame() -> None:
    images, grid = random_images(0), torch.zeros(3, 2, 3, dtype=torch.bool)
    draws = torch.tensor([[0.0, 0.99, NO_FLIP]] * 3)
    result, known = augmented(images, draws, AugmentConfig(padding=3), grid)
    assert torch.equal(result, images)
    assert known is not None
    assert torch.equal(known, grid)


def test_borders_are_seen_as_often_behind_stored_patches_as_behind_a_random_mask() -> None:
    """By all choices of three of nine patches, in all moves."""
    choices = [[cell in chosen for cell in range(9)] for chosen in combinations(range(9), 3)]
    grids = torch.tensor(choices).view(-1, 3, 3)
    images = torch.full((len(grids), 12, 12, 3), 99, dtype=torch.uint8)
    for down, right in product((0.1, 0.5, 0.9), repeat=2):
        draws = torch.tensor([[down, right, NO_FLIP]]).expand(len(grids), 3)
        result, known = augmented(images, draws, AugmentConfig(padding=4), grids)
        assert known is not None
        is_border = result[:, ::4, ::4, 0] == 0
        exact, masked = ((is_border & cells).flatten(1).sum(dim=1) for cells in (known, grids))
        assert torch.equal(exact.bincount(minlength=4), masked.bincount(minlength=4))
        assert torch.equal(known.flatten(1).sum(dim=1), torch.full((len(grids),), 3))


def test_whole_images_beside_partly_known_ones_are_cropped_as_usual() -> None:
    images = random_images(0, batch=2)
    grid = torch.ones(2, 2, 3, dtype=torch.bool)
    grid[0, 1, 2] = False
    draws = torch.tensor([[0.1, 0.9, FLIP]] * 2)
    result, known = augmented(images, draws, AugmentConfig(), grid)
    moved = torch.zeros_like(images[0])
    moved[4:, :8] = images[0, :4, 4:]  # a patch up and a patch to the right, of the image seen
    assert torch.equal(result[0], moved.flip(1))
    assert torch.equal(result[1], slow_crop_and_flip(images[1], draws[1].tolist(), 4))
    assert known is not None
    assert torch.equal(known[0], grid[0].roll((1, -1), (0, 1)).flip(1))
    assert known[1].all()


def test_the_largest_draw_below_one_stays_inside_the_padding() -> None:
    images = random_images(0, batch=1)
    almost_one = torch.nextafter(torch.tensor(1.0), torch.tensor(0.0)).item()
    for padding in range(40):
        result, _ = augmented(
            images, torch.tensor([[almost_one, almost_one, 0.9]]), AugmentConfig(padding=padding)
        )
        expected = torch.zeros_like(images)
        height, width = max(0, 8 - padding), max(0, 12 - padding)
        expected[:, :height, :width] = images[:, 8 - height :, 12 - width :]
        assert torch.equal(result, expected), padding


def test_without_augmentation_a_training_view_is_a_test_view() -> None:
    images, grid = random_images(0), torch.zeros(3, 2, 3, dtype=torch.bool)
    views, known = train_views(
        images, grid, torch.zeros(3, 3), AugmentConfig(train="none"), MEAN, STD
    )
    assert torch.equal(views, augment.plain_views(images, MEAN, STD))
    assert known is grid


def test_plain_views_are_normalised_and_channels_first() -> None:
    images = random_images(0)
    views = augment.plain_views(images, MEAN, STD)
    expected = (images.double() / 255 - torch.tensor(MEAN)) / torch.tensor(STD)
    assert views.dtype == torch.float32
    assert views.is_contiguous()
    torch.testing.assert_close(views.double(), expected.permute(0, 3, 1, 2), atol=1e-5, rtol=0)


@pytest.mark.parametrize("std", [STD, (0.2009, 0.1984, 0.2023), (0.001, 1.0, 10.0)])
def test_every_byte_value_of_every_channel_survives_normalising(std: tuple[float, ...]) -> None:
    levels = torch.arange(256, dtype=torch.uint8).view(1, 16, 16, 1).expand(-1, -1, -1, 3)
    views = augment.plain_views(levels, MEAN, std)
    assert torch.equal(augment.to_images(views, MEAN, std), levels)


def test_views_out_of_range_are_clipped_not_wrapped() -> None:
    views = torch.tensor([-9.0, 9.0]).view(2, 1, 1, 1).expand(-1, 3, 1, 1)
    assert augment.to_images(views, MEAN, STD).flatten(1).tolist() == [[0, 0, 0], [255, 255, 255]]


def test_one_channel_and_an_empty_batch_are_ordinary() -> None:
    images = torch.zeros(0, 8, 8, 1, dtype=torch.uint8)
    views, _ = train_views(images, None, torch.zeros(0, 3), AugmentConfig(), (0.5,), (0.5,))
    assert views.shape == (0, 1, 8, 8)


def test_only_the_resized_crop_happens_while_images_are_read() -> None:
    assert AugmentConfig(train="resized-crop-flip").crops_on_read
    assert not AugmentConfig(train="crop-flip").crops_on_read


def test_negative_padding_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        AugmentConfig(padding=-1)
