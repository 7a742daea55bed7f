"""Images seen in part: what the network is given of a batch, and answers from some patches."""

from __future__ import annotations

import torch

from tests.support.small_bimae import (
    NUM_VISIBLE,
    Spy,
    make_batch,
    make_method,
    patch_pixels,
    some_known,
)


def test_the_patches_shown_are_those_that_the_encoder_gets() -> None:
    method = make_method(num_classes=3, exact_view_ratio=1.0)
    known = some_known(3)
    known[0] = True  # a whole image beside two exact views
    batch, spy = make_batch(is_known=known), Spy(method.network, "encode_first")
    shown = method.shown_patches(batch)
    assert shown is not None
    method.loss(batch)
    for row, visible_ids in zip(shown, spy.calls[0][1], strict=True):
        assert torch.equal(torch.nonzero(row.flatten()).flatten(), visible_ids)
    assert shown.flatten(1).sum(dim=1).tolist() == [NUM_VISIBLE] * 3
    assert torch.equal(shown[1:], known[1:])


def test_unmasked_steps_show_every_patch() -> None:
    method = make_method(num_classes=3, unmasked_ratio=1.0)
    assert method.shown_patches(make_batch()) is None


def test_an_answer_from_parts_never_reads_the_others() -> None:
    method, known, views = make_method(num_classes=3), some_known(3), make_batch().views
    hidden = ~patch_pixels(known)[:, None]
    with torch.no_grad():
        scores = method.predict_parts(views, known)
        spoiled = method.predict_parts(views.masked_fill(hidden, float("nan")), known)
        whole = method.predict_parts(views, torch.ones_like(known))
    assert torch.equal(scores, spoiled)
    torch.testing.assert_close(whole, method.predict(views).detach())
    assert not torch.allclose(scores, whole)
