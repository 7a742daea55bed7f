from __future__ import annotations

import torch

from remnant.models.correction import BiasCorrection

SCORES = torch.tensor([[1.0, -2.0, 3.0, 0.5]])


def test_a_new_correction_changes_nothing() -> None:
    assert torch.equal(BiasCorrection()(SCORES), SCORES)


def test_only_new_classes_are_scaled_and_shifted() -> None:
    correction = BiasCorrection()
    correction.restart(2)
    with torch.no_grad():
        correction.beta.fill_(0.5)
        correction.gamma.fill_(-1)
    assert correction(SCORES).tolist() == [[1.0, -2.0, 0.5, -0.75]]


def test_a_restart_forgets_what_was_learned() -> None:
    correction = BiasCorrection()
    correction.restart(2)
    with torch.no_grad():
        correction.beta.fill_(0.5)
        correction.gamma.fill_(-1)
    correction.restart(3)
    assert torch.equal(correction(SCORES), SCORES)
    assert correction.beta.requires_grad
