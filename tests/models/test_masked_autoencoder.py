from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remnant.models.masked_autoencoder import (
    choose_visible,
    is_hidden,
    patch_grid,
    patchify,
    unpatchify,
    visible_ids_of,
)
from tests.support.worlds import seeded


@given(
    batch=st.integers(1, 3),
    channels=st.integers(1, 3),
    rows=st.integers(1, 4),
    columns=st.integers(1, 4),
    patch_size=st.integers(1, 4),
)
def test_unpatchify_undoes_patchify(
    batch: int, channels: int, rows: int, columns: int, patch_size: int
) -> None:
    height, width = rows * patch_size, columns * patch_size
    views = torch.arange(batch * channels * height * width).reshape(batch, channels, height, width)
    patches = patchify(views, patch_size)
    assert patches.shape == (batch, rows * columns, channels * patch_size**2)
    assert torch.equal(unpatchify(patches, patch_size, (height, width, channels)), views)


def test_patches_run_row_by_row_and_hold_their_own_pixels() -> None:
    views = torch.arange(2 * 4 * 6).reshape(1, 2, 4, 6)
    patches = patchify(views, 2)
    for row in range(2):
        for column in range(3):
            window = views[0, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
            assert torch.equal(patches[0, row * 3 + column], window.flatten())


def test_a_patch_size_that_does_not_divide_the_image_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must divide .* \(32 x 30\); got 4"):
        patch_grid((32, 30, 3), 4)


@given(
    batch=st.integers(1, 4),
    num_patches=st.integers(1, 40),
    mask_ratio=st.sampled_from([0.0, 0.4, 0.75, 0.9, 1.0]),
    seed=st.integers(0, 1000),
)
def test_visible_and_hidden_ids_form_a_permutation(
    batch: int, num_patches: int, mask_ratio: float, seed: int
) -> None:
    noise = torch.rand(batch, num_patches, generator=seeded(seed))
    visible_ids = choose_visible(noise, mask_ratio)
    hidden = is_hidden(visible_ids, num_patches)
    for visible, flags in zip(visible_ids.tolist(), hidden.tolist(), strict=True):
        hidden_ids = [place for place, flag in enumerate(flags) if flag]
        assert visible == sorted(visible)
        assert sorted(visible + hidden_ids) == list(range(num_patches))
    assert torch.equal(visible_ids_of(hidden), visible_ids)


def test_the_smallest_noise_is_visible() -> None:
    noise = torch.tensor([[0.9, 0.1, 0.5, 0.2], [0.3, 0.8, 0.2, 0.9]])
    assert choose_visible(noise, 0.5).tolist() == [[1, 3], [0, 2]]


def test_masks_differ_between_images_and_reach_every_place() -> None:
    noise = torch.rand(200, 64, generator=seeded(0))
    visible_ids = choose_visible(noise, 0.75)
    assert len(torch.unique(visible_ids, dim=0)) == 200
    share = (~is_hidden(visible_ids, 64)).double().mean(dim=0)
    assert share.min() > 0.1
    assert share.max() < 0.4


def test_images_that_show_unequal_numbers_of_patches_are_refused() -> None:
    with pytest.raises(ValueError, match="equally many patches; got 1 to 2"):
        visible_ids_of(torch.tensor([[True, True, False], [True, False, False]]))
