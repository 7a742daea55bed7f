from __future__ import annotations

import torch

from tests.support.small_bimae import (
    NUM_PATCHES,
    NUM_VISIBLE,
    make_method,
    make_trainer,
    noise_images,
)

GREY = 128


def test_the_picture_of_what_is_visible_hides_the_rest_in_grey() -> None:
    images = noise_images(2).clamp(max=100)
    visible = make_method(num_classes=2).redraw(images, make_trainer().reader)["visible"]
    is_grey = (visible == GREY).all(dim=3)
    assert (~is_grey).sum(dim=(1, 2)).tolist() == [NUM_VISIBLE * 16] * 2
    assert torch.equal(visible[~is_grey], images[~is_grey])


def test_the_same_patches_are_seen_however_many_images_are_shown() -> None:
    method, reader, images = make_method(num_classes=2), make_trainer().reader, noise_images(5)
    few, many = method.redraw(images[:2], reader), method.redraw(images, reader)
    for name, pictures in few.items():
        differences = pictures.int() - many[name][:2].int()
        assert differences.abs().max() <= 1, name  # rounding of batches of another size


def test_both_branches_are_the_completion_of_the_visible_patches() -> None:
    method, reader, images = make_method(num_classes=2), make_trainer().reader, noise_images(3)
    noise = torch.rand(3, 3, NUM_PATCHES, generator=reader.generator("pictures"))
    visible_ids = method.network.visible_ids(noise[:, 0], 0.75)
    with torch.no_grad():
        expected = reader.to_images(method.network.complete(reader.views(images), visible_ids))
    differences = method.redraw(images, reader)["both"].int() - expected.int()
    assert differences.abs().max() <= 1


def test_without_a_detail_branch_there_is_the_main_picture_alone() -> None:
    method = make_method(num_classes=2, has_detail_branch=False)
    pictures = method.redraw(noise_images(2), make_trainer().reader)
    assert set(pictures) == {"visible", "main"}
