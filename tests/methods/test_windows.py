"""Windows of images: where they lie, what they cost, and that they equal a mask."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from remnant.errors import InputError
from remnant.memory import PatchesConfig, RawConfig
from remnant.methods.bimae import BiMAE
from remnant.methods.teacher import frozen_copy
from remnant.methods.windows import cut_windows, epochs_for, window_size
from remnant.models.conv_autoencoder import ConvMAE
from remnant.models.masked_convolutions import MaskedNorm
from remnant.training.arithmetic import FlopCount
from tests.support.small_bimae import (
    CONV,
    NETWORK,
    after_first_task,
    make_batch,
    make_method,
    make_task,
    make_trainer,
)

WINDOW: dict[str, Any] = {
    "network": CONV,
    "view": "window",
    "mask_ratio": 0.75,
    "unmasked_ratio": 0.3,
    "has_detail_branch": False,
    "reconstruction": "off",
    "classify_weight": 1.0,
}


def windowed(codec: Any = None, **options: Any) -> BiMAE:
    """In its first task."""
    method = make_method(codec or RawConfig(), num_classes=3, **{**WINDOW, **options})
    next(method.phases(make_task(0), make_trainer().reader))
    return method


@pytest.mark.parametrize(
    ("shape", "patch_size", "mask_ratio", "expected"),
    [
        ((32, 32, 3), 8, 0.4375, (24, 24)),
        ((32, 32, 3), 8, 0.43, (24, 24)),  # hides at least as much as asked for
        ((32, 32, 3), 8, 0.44, (16, 16)),
        ((32, 32, 3), 8, 0.75, (16, 16)),
        ((32, 32, 3), 8, 0.99, (8, 8)),
        ((64, 32, 3), 8, 0.4375, (48, 24)),
        ((8, 64, 3), 8, 0.4375, (8, 48)),  # one patch is always left
        ((32, 32, 3), 8, 0.0, (32, 32)),
    ],
)
def test_a_window_hides_its_share_in_whole_patches(
    shape: tuple[int, int, int], patch_size: int, mask_ratio: float, expected: tuple[int, int]
) -> None:
    assert window_size(shape, patch_size, mask_ratio) == expected


def test_windows_are_cut_pixel_by_pixel_where_the_draws_say() -> None:
    views = torch.arange(2 * 3 * 6 * 5, dtype=torch.float32).view(2, 3, 6, 5)
    cut = cut_windows(views, (4, 2), torch.tensor([[0.0, 0.999], [0.999, 0.5]]))
    corners = [(0, 3), (2, 2)]
    for index, (top, left) in enumerate(corners):
        for row in range(4):
            for column in range(2):
                expected = views[index, :, top + row, left + column]
                assert torch.equal(cut[index, :, row, column], expected)


def test_every_place_is_equally_likely() -> None:
    evenly = (torch.arange(30) + 0.5) / 30  # none on the border between two places
    draws = torch.cartesian_prod(evenly, evenly)
    views = torch.arange(16.0).view(1, 1, 4, 4).expand(900, 1, 4, 4)
    corners = cut_windows(views, (2, 3), draws)[:, 0, 0, 0]
    assert torch.bincount(corners.long()).tolist() == [150, 150, 0, 0, 150, 150, 0, 0, 150, 150]


@torch.no_grad()
def test_a_window_of_whole_units_is_a_mask_that_costs_only_what_it_shows() -> None:
    full = {**WINDOW, "view": "full", "unmasked_ratio": 0.0}  # of which scattered units may be seen
    network = make_method(RawConfig(), num_classes=3, **full).eval().network
    views = make_batch(3).views
    assert isinstance(network, ConvMAE)
    for norm in network.modules():  # masks with the statistics of whole images
        if isinstance(norm, MaskedNorm) and norm.masked is not None:
            norm.whole.running_mean.normal_()
            norm.masked.load_state_dict(norm.whole.state_dict())
    middle = torch.tensor([[5, 6, 9, 10]]).expand(3, 4)  # of 4 x 4 units
    with FlopCount() as in_window:
        scores = network.scores(views[:, :, 4:12, 4:12])
    with FlopCount() as in_whole:
        expected = network.masked_scores(views, middle)
    torch.testing.assert_close(scores, expected)
    assert in_window.flops < 0.26 * in_whole.flops


def test_masked_steps_classify_windows_and_the_last_ones_whole_images() -> None:
    method = windowed(label_smoothing=0.1)
    for step in range(10):
        batch = make_batch(3, step=step)
        views = batch.views
        if step < 7:
            views = cut_windows(views, (8, 8), batch.draw("window", 2))
        expected = F.cross_entropy(method.network.scores(views), batch.labels, label_smoothing=0.1)
        terms = method.loss(batch)
        assert set(terms) == {"classify"}
        torch.testing.assert_close(terms["classify"], expected)


@pytest.mark.parametrize("num_steps", [1, 2, 10])
def test_the_last_step_sees_whole_images_however_few_there_are(num_steps: int) -> None:
    method = windowed()
    batch = make_batch(3, step=num_steps - 1, num_steps=num_steps)
    expected = F.cross_entropy(method.network.scores(batch.views), batch.labels)
    torch.testing.assert_close(method.loss(batch)["classify"], expected)


def test_a_teacher_sees_the_same_window() -> None:
    method, batch = windowed(distill_weight=0.6), make_batch(3)
    method.teacher = frozen_copy(method.network)
    method.network.classifier.grow(1)  # three of four are old
    with torch.no_grad():
        method.network.classifier.weight[:3] *= 1.5
    views = cut_windows(batch.views, (8, 8), batch.draw("window", 2))
    old = method.teacher.network.scores(views) / 2
    new = method.network.scores(views)[:, :3] / 2
    divergence = F.kl_div(
        new.log_softmax(1), old.log_softmax(1), reduction="batchmean", log_target=True
    )
    torch.testing.assert_close(method.loss(batch)["distill"], 0.6 * 3 / 4 * 4 * divergence)


@pytest.mark.parametrize(
    ("epochs", "mask_ratio", "whole_ratio", "expected"),
    [(30, 0.4375, 0.4, 40), (30, 0.0, 0.4, 30), (10, 0.75, 0.0, 40), (10, 0.75, 1.0, 10)],
)
def test_what_windows_save_pays_for_epochs(
    epochs: int, mask_ratio: float, whole_ratio: float, expected: int
) -> None:
    assert epochs_for(epochs, mask_ratio, whole_ratio) == expected


@given(epochs=st.integers(1, 500), hidden=st.integers(0, 99), whole=st.integers(0, 100))
def test_all_that_windows_save_is_spent_and_no_more(epochs: int, hidden: int, whole: int) -> None:
    """In hundredths of hundredths, which are whole numbers."""
    each = whole * 100 + (100 - whole) * (100 - hidden)  # of an epoch of whole images
    found = epochs_for(epochs, hidden / 100, whole / 100)
    assert found * each <= epochs * 10_000 < (found + 1) * each


@pytest.mark.parametrize(("at_least", "has_windows"), [(0, True), (3, True), (4, False)])
def test_a_task_with_few_exemplars_is_learned_from_whole_images(
    at_least: int, has_windows: bool
) -> None:
    """3 images of each old class are kept."""
    trainer, options = make_trainer(), {**WINDOW, "window_exemplars": at_least}
    method = after_first_task(trainer, codec=RawConfig(), **options)
    task = make_task(1)
    method.begin_task(task, trainer.reader)
    (phase,) = method.phases(task, trainer.reader)
    assert phase.schedule.epochs == (2 if has_windows else 1)  # 1 / (0.3 + 0.7 / 4)
    batch = make_batch(4, labels=torch.arange(4))
    views = cut_windows(batch.views, (8, 8), batch.draw("window", 2))
    expected = F.cross_entropy(
        method.network.scores(views if has_windows else batch.views), batch.labels
    )
    torch.testing.assert_close(method.loss(batch)["classify"], expected)


REFUSED = {
    "of a transformer": ({"network": NETWORK}, "encoder=conv"),
    "that are drawn": ({"reconstruction": "on"}, "reconstruction=off"),
    "without whole images": ({"unmasked_ratio": 0.0}, "unmasked_ratio above 0"),
    "with whole images between": ({"unmasked_placement": "spread"}, "unmasked_placement=end"),
    "with refreshed exemplars": ({"refresh_every_epochs": 1}, "refresh_every_epochs out"),
    "by number but not shown": (
        {"view": "full", "unmasked_ratio": 0.0, "window_exemplars": 5},
        "window_exemplars=0",
    ),
    "with a side branch": ({"side_ratio": 0.5}, "method.view=full"),
    "of images known in part": (
        {"codec": PatchesConfig(patch_size=4), "exact_view_ratio": 1.0},
        "keeps whole images",
    ),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_windows_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        windowed(**options)
