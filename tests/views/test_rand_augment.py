from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from remnant.views import rand_augment as module
from remnant.views.augment import AugmentConfig, to_images, train_views
from remnant.views.rand_augment import NUM_DRAWS, rand_augment

FILL = (10, 20, 30)
MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.25, 0.25)
NOTHING = [0.0, 0.9, 0.5, 0.0]  # an operation that is not carried out
MIDDLE = 0.5  # of the magnitudes: 9 of 10


def random_planes(count: int = 4, seed: int = 0) -> Tensor:
    """uint8 [n, 3, 20, 24] whose channels differ in brightness and range."""
    source = torch.Generator().manual_seed(seed)
    base, span = (torch.rand(2, count, 3, 1, 1, generator=source) * 120).unbind(0)
    noise = torch.rand(count, 3, 20, 24, generator=source)
    return (base + span * noise).to(torch.uint8)


def smooth_planes() -> Tensor:
    """One image of slopes, so that rounding places changes little."""
    rows, columns = torch.meshgrid(torch.arange(16.0), torch.arange(20.0), indexing="ij")
    slopes = [8 * rows + 4 * columns, 100 + 3 * rows + 2 * columns, 200 - 5 * columns - 3 * rows]
    return torch.stack(slopes).to(torch.uint8)[None]


def to_picture(planes: Tensor) -> Image.Image:
    return Image.fromarray(planes.permute(1, 2, 0).contiguous().numpy())


def from_picture(picture: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)


def pillow(name: str, picture: Image.Image, factor: float) -> Image.Image:
    """The same operation at magnitude 9, by Pillow."""
    enhance = {
        "colour": ImageEnhance.Color,
        "contrast": ImageEnhance.Contrast,
        "brightness": ImageEnhance.Brightness,
        "sharpness": ImageEnhance.Sharpness,
    }
    if name in enhance:
        return enhance[name](picture).enhance(factor)
    plain = {
        "auto_contrast": ImageOps.autocontrast,
        "equalize": ImageOps.equalize,
        "invert": ImageOps.invert,
        "posterize": lambda one: ImageOps.posterize(one, 4 - int(0.9 * 4)),
        "solarize": lambda one: ImageOps.solarize(one, 256 - int(0.9 * 256)),
        "solarize_add": lambda one: one.point(lambda x: min(255, x + 99) if x < 128 else x),
    }
    return plain[name](picture)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("change", module._COLOURS, ids=lambda change: change.__name__)
def test_colours_change_as_pillow_changes_them(change: module.Change, sign: int) -> None:
    planes = random_planes()
    level = torch.full((len(planes), 1, 1, 1), 0.9)
    found = change(planes, level, sign * level)
    for image, changed in zip(planes, found, strict=True):
        expected = from_picture(pillow(change.__name__, to_picture(image), 1 + sign * 0.81))
        difference = (changed.int() - expected.int()).abs()
        assert difference.max() <= 1  # fractions on the edge of a level
        assert (difference > 0).float().mean() < 0.1


def affine(kind: int, level: float, picture: Image.Image) -> Image.Image:
    if kind == 0:
        return picture.rotate(30 * level, Image.Resampling.BILINEAR, fillcolor=FILL)
    width, height = picture.size
    maps = {
        1: (1, 0.3 * level, 0, 0, 1, 0),
        2: (1, 0, 0, 0.3 * level, 1, 0),
        3: (1, 0, 0.45 * level * width, 0, 1, 0),
        4: (1, 0, 0, 0, 1, 0.45 * level * height),
    }
    how = Image.Resampling.BILINEAR
    return picture.transform(picture.size, Image.Transform.AFFINE, maps[kind], how, fillcolor=FILL)


@pytest.mark.parametrize("level", [0.9, -0.9, 0.3])
@pytest.mark.parametrize("kind", range(5))
def test_shapes_change_as_pillow_changes_them_away_from_the_edge(kind: int, level: float) -> None:
    planes = smooth_planes()
    found = module._reshape(planes, torch.tensor([kind]), torch.tensor([level]), torch.tensor(FILL))
    expected = from_picture(affine(kind, level, to_picture(planes[0])))
    difference = (found[0].int() - expected.int()).abs().amax(dim=0)  # [H, W]
    # Pillow cuts sharply where the outside begins, and here it is blended over one pixel.
    assert (difference > 2).float().mean() < 0.12


def test_what_moves_in_from_outside_has_the_colour_asked_for() -> None:
    fill = torch.tensor(FILL, dtype=torch.uint8)
    found = module._reshape(smooth_planes(), torch.tensor([3]), torch.tensor([-0.9]), fill.float())
    assert (found[0, :, :, :8] == fill[:, None, None]).all()  # 40.5 % of 20 columns
    assert (found[0, :, :, 9:] != fill[:, None, None]).any(dim=0).all()


def test_each_image_is_changed_by_its_own_draws_whatever_is_beside_it() -> None:
    planes = random_planes(count=64)
    draws = torch.rand(64, NUM_DRAWS, generator=torch.Generator().manual_seed(1))
    fill = torch.tensor(FILL).float()
    whole = rand_augment(planes, draws, fill)
    parts = [rand_augment(planes[rows], draws[rows], fill) for rows in torch.arange(64).split(9)]
    difference = (whole.int() - torch.cat(parts).int()).abs()
    assert difference.max() <= 1  # sums of another order
    assert (difference > 0).float().mean() < 1e-3
    assert torch.equal(rand_augment(planes, draws, fill), whole)


def test_half_of_the_operations_are_carried_out_and_all_of_them_occur() -> None:
    planes = random_planes(count=1).expand(600, -1, -1, -1)
    draws = torch.rand(600, NUM_DRAWS, generator=torch.Generator().manual_seed(2))
    draws[:, 5] = 0.9  # no second operation
    is_changed = (rand_augment(planes, draws, torch.zeros(3)) != planes).flatten(1).any(dim=1)
    assert is_changed.float().mean().item() == pytest.approx(0.5, abs=0.06)
    assert not is_changed[draws[:, 1] >= 0.5].any()
    assert set((draws[:, 0] * 15).long()[is_changed].tolist()) == set(range(15))


def test_the_input_stays_as_it_is() -> None:
    planes = random_planes()
    before = planes.clone()
    invert_twice = torch.tensor([[2.5 / 15, 0.0, MIDDLE, 0.0] * 2] * 4)
    assert torch.equal(rand_augment(planes, invert_twice, torch.zeros(3)), before)
    assert torch.equal(planes, before)


def test_views_are_changed_after_crop_and_flip_but_those_known_in_part_are_not() -> None:
    images = random_planes(count=2).permute(0, 2, 3, 1).contiguous()
    known = torch.ones(2, 5, 6, dtype=torch.bool)
    known[1, 0, 0] = False
    invert = [2.5 / 15, 0.0, MIDDLE, 0.0]
    draws = torch.tensor([[0.5, 0.5, 0.9, *invert, *NOTHING]] * 2)
    config = AugmentConfig(rand_augment=True)
    assert config.num_draws == draws.shape[1]
    views, _ = train_views(images, known, draws, config, MEAN, STD)
    found = to_images(views, MEAN, STD)
    assert torch.equal(found[0], 255 - images[0])
    assert torch.equal(found[1], images[1])
    both, _ = train_views(images, None, draws, config, MEAN, STD)
    assert torch.equal(to_images(both, MEAN, STD), 255 - images)
