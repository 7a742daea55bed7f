from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from remnant.memory import RawConfig
from remnant.models.masked_autoencoder import patchify
from remnant.training.network_state import Arrays
from remnant.training.trainer import Trainer
from tests.support.small_bimae import (
    NUM_PATCHES,
    SHORT,
    Spy,
    learn,
    make_batch,
    make_method,
    make_task,
    make_trainer,
)

# -------------------------------------------------------------------------------------------- masks


def masks_of_run(trainer: Trainer, num_tasks: int = 1) -> list[list[Tensor]]:
    """For each task, the visible patches [B, V] of every step."""
    method = make_method(RawConfig(), reconstruction="off")  # one encoder pass per part of a step
    spy = Spy(method.network, "encode_first")
    masks = []
    for index in range(num_tasks):
        spy.calls.clear()
        log = learn(method, make_task(index), trainer)
        calls = [ids for _, ids in spy.calls if ids is not None]  # None: whole images are herded
        parts = len(calls) // len(log.reports)
        steps = range(0, len(calls), parts)
        masks.append([torch.cat(calls[first : first + parts]) for first in steps])
    return masks


def test_masks_differ_between_images_steps_and_tasks() -> None:
    # Fails where one mask is frozen for the whole run.
    first, second = masks_of_run(make_trainer(), num_tasks=2)
    shown = [tuple(ids) for mask in first for ids in mask.tolist()]
    assert len(shown) == 12
    assert len(set(shown)) > 8
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], second[0][: len(first[0])])


def test_masks_are_the_same_for_the_same_seed_and_in_any_number_of_parts() -> None:
    (once,) = masks_of_run(make_trainer())
    for same in (make_trainer(), make_trainer(accumulate=2), make_trainer(accumulate=3)):
        (again,) = masks_of_run(same)
        assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    (other,) = masks_of_run(make_trainer(seed=8))
    assert not torch.equal(once[0], other[0])


def test_masks_after_a_resume_are_those_of_the_run_that_never_stopped() -> None:
    task, trainer = make_task(0), make_trainer(every=1)
    schedule = SHORT.model_copy(update={"epochs": 2})
    method = make_method(first=schedule)
    method.begin_task(task, trainer.reader)
    (phase,) = method.phases(task, trainer.reader)
    saved: dict[int, Arrays] = {}

    def save(step: int, arrays: Arrays) -> None:
        saved[step] = {name: np.array(array) for name, array in arrays.items()}

    spy = Spy(method.network, "encode_first")
    trainer.fit(method, task, phase, save=save)
    straight = [ids for _, ids in spy.calls]
    spy.calls.clear()
    trainer.fit(method, task, phase, resume_from=(2, saved[2]))
    resumed = [ids for _, ids in spy.calls]
    assert len(straight) == 8  # two passes in each of four steps
    assert all(torch.equal(a, b) for a, b in zip(straight[4:], resumed, strict=True))


# ------------------------------------------------------------------ known errors of the public code


def test_what_the_detail_branch_adds_has_high_frequencies_alone() -> None:
    # Fails where the "high-frequency" filter keeps the low ones.
    network, views = make_method(num_classes=3).double().network, make_batch().views.double()
    visible_ids = network.visible_ids(torch.rand(3, NUM_PATCHES), 0.75)
    main = network.decode(
        network.encode_rest(network.encode_first(views, visible_ids)), visible_ids
    )
    added = (network.complete(views, visible_ids) - main).detach().numpy()
    energy = np.abs(np.fft.fft2(added)) ** 2
    radius = np.hypot(np.fft.fftfreq(16)[:, None], np.fft.fftfreq(16)[None, :])
    assert energy[..., radius <= 0.25].max() < 1e-20
    assert energy[..., radius > 0.25].min() > 0
    assert np.abs(added.sum(axis=(2, 3))).max() < 1e-9  # nothing of a constant


def test_an_imaginary_spectrum_counts_in_completion_and_loss() -> None:
    # Fails where the complex spectrum is cast to real: a sine would vanish.
    method, batch = make_method(num_classes=3), make_batch()
    phase = 2 * math.pi * 5 * torch.arange(16) / 16  # 0.31 cycles per pixel
    sine = phase.sin().expand(3, 3, 16, 16)
    zero = torch.zeros_like(sine)
    setattr(method.network, "decode_both", lambda *_: (zero, sine))  # noqa: B010
    setattr(method.network, "decode", lambda *_: zero)  # noqa: B010
    completed = method.network.complete(batch.views, torch.zeros(3, 1, dtype=torch.int64))
    torch.testing.assert_close(completed, sine, rtol=0, atol=1e-6)
    # Two of 256 coefficients, each of modulus 256 / 2 / sqrt(256) = 8.
    assert float(method.loss(batch)["detail"]) == pytest.approx(2 * 8 / 256, rel=1e-5)


def test_the_mask_token_trains() -> None:
    method = make_method()
    before = method.network.decoder.mask_token.clone()
    learn(method, make_task(0), make_trainer())
    moved = (method.network.decoder.mask_token - before).abs()
    assert bool((moved > 1e-4).all())


def test_hidden_patches_are_drawn_by_their_place() -> None:
    # Fails without a position code before the decoder: all hidden patches would be alike.
    network, views = make_method(num_classes=3).network, make_batch(1).views
    visible_ids = torch.tensor([[0, 1, 2, 3]])
    drawn = network.decode(
        network.encode_rest(network.encode_first(views, visible_ids)), visible_ids
    )
    hidden = patchify(drawn, 4)[0, 4:]
    gaps = torch.cdist(hidden, hidden) + 10 * torch.eye(len(hidden))
    assert bool((gaps > 1e-2).all())


@pytest.mark.parametrize("has_detail_branch", [True, False])
def test_evaluation_is_one_encoder_pass_over_all_patches_and_no_decoder(
    has_detail_branch: bool,
) -> None:
    method = make_method(num_classes=4, has_detail_branch=has_detail_branch)
    first = Spy(method.network, "encode_first")
    rest, decode = Spy(method.network.encoder.rest, "forward"), Spy(method.network, "decode")
    task = make_task(0)
    top5 = make_trainer().evaluate(method, task.train)
    assert top5.shape == (len(task.train), 5)
    assert [visible_ids for _, visible_ids in first.calls] == [None]
    assert len(rest.calls) == 1
    assert not decode.calls
