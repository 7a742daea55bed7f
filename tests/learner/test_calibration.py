"""Probabilities and "none of these" of networks that were trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from remnant import Learner
from remnant.learner.predictor import Predictor
from remnant.learner.reliability import measure_reliability
from remnant.learner.score_calibration import Calibration, calibrate
from tests.support.small_learner import stripes, tiny_learner


def overconfident(count: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores that are right in 7 of 10 images and nearly certain of all."""
    rng = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (count,), generator=rng)
    said = torch.where(torch.rand(count, generator=rng) < 0.7, labels, (labels + 1) % 3)
    return 12 * torch.nn.functional.one_hot(said, 3).float(), labels


def test_a_temperature_takes_certainty_from_what_is_often_wrong() -> None:
    scores, labels = overconfident()
    found = calibrate(scores, labels)
    assert found is not None

    def error(temperature: float) -> float:
        shares = (scores / temperature).softmax(dim=1).numpy()
        return measure_reliability(shares, labels.numpy()).error

    assert error(1.0) > 0.25
    assert error(found.temperature) < 0.1


def test_nineteen_of_twenty_images_are_known() -> None:
    scores, labels = (
        torch.randn(400, 3, generator=torch.Generator().manual_seed(1)),
        overconfident()[1],
    )
    found = calibrate(scores, labels)
    assert found is not None
    assert found.knows(scores).double().mean() == pytest.approx(0.95, abs=0.01)


def test_few_images_and_a_single_class_are_not_calibrated() -> None:
    assert calibrate(torch.randn(19, 3), torch.zeros(19, dtype=torch.int64)) is None
    assert calibrate(torch.randn(40, 1), torch.zeros(40, dtype=torch.int64)) is None


def test_a_trained_store_rejects_what_it_was_never_taught(tmp_path: Path) -> None:
    learner = tiny_learner(epochs=12).fit(*stripes("a", "c", per_class=120))
    learner.save(tmp_path / "x.remnant")
    predictor = Predictor(Learner.load(tmp_path / "x.remnant").state_)
    calibration = predictor.state.calibration
    assert isinstance(calibration, Calibration)
    assert calibration == learner.state_.calibration
    images, _ = stripes("a", "c", per_class=20, seed=5)
    shares, is_known = predictor.recognise(images)
    assert is_known.mean() > 0.6
    np.testing.assert_allclose(shares, learner.predict_proba(images), atol=1e-6)
    dark = np.full((4, 8, 8, 3), 30, np.uint8)
    assert not predictor.recognise(dark)[1].any()


def test_a_store_without_held_back_images_says_so() -> None:
    learner = tiny_learner().fit(*stripes("a", "c"))
    assert learner.state_.calibration is None
    assert not Predictor(learner.state_).can_reject
