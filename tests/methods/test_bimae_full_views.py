"""Full views with a masked side branch, by transformer and by convolutions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from remnant.errors import InputError
from remnant.memory import PatchesConfig, RawConfig
from remnant.methods.base import kept_bytes
from remnant.methods.bimae import BilateralConfig, BiMAE
from remnant.methods.teacher import frozen_copy
from tests.support.small_bimae import (
    CONV,
    NETWORK,
    after_first_task,
    batches_of,
    learn,
    make_batch,
    make_method,
    make_task,
    make_trainer,
    some_known,
)

FULL: dict[str, Any] = {
    "view": "full",
    "side_ratio": 1.0,
    "has_detail_branch": False,
    "classify_weight": 1.0,
}
NETWORKS = pytest.mark.parametrize("network", [NETWORK, CONV], ids=["vit", "conv"])


def full(network: BilateralConfig = NETWORK, codec: Any = None, **options: Any) -> BiMAE:
    codec = codec or RawConfig()
    return make_method(codec, num_classes=3, **{"network": network, **FULL, **options})


@NETWORKS
def test_whole_images_are_classified_whole(network: BilateralConfig) -> None:
    method, batch = full(network), make_batch(6, labels=torch.tensor([0, 1, 2, 0, 1, 2]))
    expected = F.cross_entropy(method.network.scores(batch.views), batch.labels)
    assert torch.allclose(method.loss(batch)["classify"], expected)


def test_tuning_the_classifier_moves_no_batch_statistics() -> None:
    method, batch = full(CONV), make_batch(6, labels=torch.tensor([0, 1, 2, 0, 1, 2]))
    before = {name: one.clone() for name, one in method.train().named_buffers()}
    method._tune(batch)
    assert all(torch.equal(one, before[name]) for name, one in method.named_buffers())
    expected = F.cross_entropy(method.predict(batch.views), batch.labels)
    assert torch.allclose(method._tune(batch)["classify"], expected)


@pytest.mark.parametrize(("reconstruction", "has_decoder"), [("on", True), ("off", False)])
def test_convolutions_that_draw_nothing_keep_no_decoder(
    reconstruction: str, has_decoder: bool
) -> None:
    method = full(CONV, reconstruction=reconstruction)
    assert ("decoder" in kept_bytes(method)) == has_decoder
    assert any(".decoder." in name for name in method.state_dict()) == has_decoder


@pytest.mark.parametrize("reuses", [True, False], ids=["x1 reused", "x1 drawn"])
def test_the_detail_loss_of_convolutions_is_written_out_frequency_by_frequency(
    reuses: bool,
) -> None:
    method = full(CONV, has_detail_branch=True, reuse_main_as_x1=reuses)
    network, batch = method.network, make_batch(6, labels=torch.tensor([0, 1, 2, 0, 1, 2]))
    terms = method.loss(batch)
    views, count = batch.views, network.num_patches
    noise = batch.draw("fine mask", 2, count)
    coarse, fine = network.draw_both(
        network.encode(views, network.visible_ids(batch.draw("mask", count), 0.75))
    )
    x1 = coarse if reuses else network.redraw(views, network.visible_ids(noise[:, 1], 0.75))
    x2 = network.redraw(views, network.visible_ids(noise[:, 0], 0.40))
    spectrum = torch.fft.fft2(fine - (x2 - x1), norm="ortho")
    height, width = views.shape[2:]
    total = torch.zeros(())
    for row in range(height):
        for column in range(width):
            down, right = min(row, height - row) / height, min(column, width - column) / width
            if down**2 + right**2 > 0.25**2:
                total = total + spectrum[:, :, row, column].abs().sum()
    torch.testing.assert_close(terms["detail"], total / views.numel())
    terms["detail"].backward()
    grads = [one.grad for one in network.detail_branch.parameters()]
    assert all(one is not None and bool((one != 0).any()) for one in grads)


def test_without_a_decoder_stored_patches_are_shown_as_they_are() -> None:
    trainer, codec = make_trainer(), PatchesConfig(patch_size=4, mask_ratio=0.5)
    options = {"network": CONV, "reconstruction": "off", "side_ratio": 0.0, "exact_view_ratio": 1.0}
    method = after_first_task(trainer, codec=codec, **{**FULL, **options})
    task = make_task(1)
    method.begin_task(task, trainer.reader)
    (phase,) = method.phases(task, trainer.reader)
    known = [batch.is_known for batch in batches_of(phase) if bool(batch.is_replay.any())]
    assert any(one is not None and not bool(one.all()) for one in known)


def test_masked_images_learn_the_answer_to_the_whole_image_which_gets_no_gradient() -> None:
    method, batch = full(side_weight=0.7, reconstruction="off"), make_batch(3)
    terms = method.loss(batch)
    ids = method.network.visible_ids(batch.draw("mask", 16), 0.75)
    whole = method.network.scores(batch.views).softmax(dim=1)
    masked = method.network.masked_scores(batch.views, ids)
    expected = -0.7 * (whole.detach() * masked.log_softmax(dim=1)).sum(dim=1).mean()
    assert torch.allclose(terms["side"], expected)
    weight = method.network.classifier.weight
    found, wanted = (torch.autograd.grad(one, weight)[0] for one in (terms["side"], expected))
    assert torch.allclose(found, wanted, atol=1e-6)


def test_only_a_share_of_the_images_is_masked_and_redrawn() -> None:
    method = full(side_ratio=0.5)
    draws = torch.tensor([0.2, 0.7, 0.4])

    def draw(name: str, *shape: int) -> torch.Tensor:
        return draws if name == "side" else make_batch(3).draw(name, *shape)

    batch = make_batch(3, draw=draw)
    terms, rows = method.loss(batch), torch.tensor([0, 2])
    ids = method.network.visible_ids(batch.draw("mask", 16), 0.75)[rows]
    drawn = method.network.complete(batch.views[rows], ids)
    expected = F.mse_loss(drawn, batch.views[rows]) * 2 / 3
    assert torch.allclose(terms["reconstruct"], expected)


@NETWORKS
def test_exact_views_are_classified_by_their_stored_patches(network: BilateralConfig) -> None:
    method = full(network, PatchesConfig(patch_size=4), exact_view_ratio=1.0, side_ratio=0.25)
    method.eval()
    known = torch.cat([torch.ones(1, 4, 4, dtype=torch.bool), some_known(2)])
    batch = make_batch(3, is_known=known)
    rubbish = torch.where(
        known.repeat_interleave(4, 1).repeat_interleave(4, 2)[:, None], batch.views, 99.0
    )
    ids = known[1:].flatten(1).nonzero()[:, 1].view(2, 4)
    scores = torch.cat(
        [
            method.network.scores(batch.views[:1]),
            method.network.masked_scores(batch.views[1:], ids),
        ]
    )
    expected = F.cross_entropy(scores, batch.labels)
    for views in (batch.views, rubbish):
        terms = method.loss(make_batch(3, is_known=known, views=views))
        assert torch.allclose(terms["classify"], expected, atol=1e-6)


def test_a_batch_of_exact_views_alone_can_be_learned() -> None:
    method = full(CONV, PatchesConfig(patch_size=4), exact_view_ratio=1.0, side_ratio=0.25)
    assert set(method.loss(make_batch(3, is_known=some_known(3)))) == {"classify"}


def test_distillation_is_weighted_by_the_share_of_old_classes() -> None:
    method, batch = full(distill_weight=0.6, reconstruction="off", side_ratio=0.0), make_batch(3)
    method.teacher = frozen_copy(method.network)
    method.network.classifier.grow(1)  # three of four are old
    with torch.no_grad():
        method.network.classifier.weight[:3] *= 1.5
    old = method.teacher.network.scores(batch.views) / 2
    new = method.network.scores(batch.views)[:, :3] / 2
    divergence = F.kl_div(
        new.log_softmax(1), old.log_softmax(1), reduction="batchmean", log_target=True
    )
    assert torch.allclose(method.loss(batch)["distill"], 0.6 * 3 / 4 * 4 * divergence)


def test_mean_weights_take_the_place_of_the_last_ones_and_leave_nothing_behind() -> None:
    trainer = make_trainer()
    plain, averaged = (
        make_method(RawConfig(), **FULL, average_decay=decay) for decay in (0.0, 0.9)
    )
    averaged.load_state_dict(plain.state_dict())
    for method in (plain, averaged):
        learn(method, make_task(0), trainer)
    last, mean = (method.network.classifier.weight for method in (plain, averaged))
    assert not torch.equal(last, mean)
    assert plain.state_dict().keys() == averaged.state_dict().keys()


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_new_images_are_shown_as_the_memory_would_give_them_back(ratio: float) -> None:
    trainer = make_trainer("none")
    codec = {"name": "transform", "quality": 5}
    method = after_first_task(trainer, codec=codec, **FULL, codec_view_ratio=ratio)
    task = make_task(1, per_class=40)
    method.begin_task(task, trainer.reader)
    (phase,) = method.phases(task, trainer.reader)
    exact = {
        one.numpy().tobytes() for images in trainer.reader.images(task.train) for one in images
    }
    coded = [
        image.numpy().tobytes() not in exact
        for batch in batches_of(phase, "none")
        for image in trainer.reader.to_images(batch.views[~batch.is_replay])
    ]
    assert abs(sum(coded) / len(coded) - ratio) < 0.2
    assert (sum(coded) == 0) == (ratio == 0)


REFUSED = {
    "a detail branch of convolutions that draw nothing": (
        {"network": CONV, "view": "full", "reconstruction": "off"},
        "has_detail_branch=false",
    ),
    "masked views of convolutions": (
        {"network": CONV, "has_detail_branch": False},
        "Set method.view to full or window",
    ),
    "redrawing without masked images": ({**FULL, "side_ratio": 0.0}, "side_ratio above 0"),
    "a side branch of masked views": ({"side_ratio": 0.5}, "method.view=full"),
    "unmasked steps of full views": ({**FULL, "unmasked_ratio": 0.5}, "unmasked_ratio"),
    "exact views that look like new images": (
        {**FULL, "presentation": "symmetric", "exact_view_ratio": 0.5},
        "cannot be kept",
    ),
    "a mean over phases that are cut": (
        {"average_decay": 0.9, "refresh_every_epochs": 1},
        "refresh_every_epochs",
    ),
    "a unit that the stages do not make": (
        {**FULL, "network": CONV.model_copy(update={"patch_size": 8})},
        "method.network: .*Set patch_size=4",
    ),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_contradicts_itself_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_method(RawConfig(), **options)
