"""scikit-learn's own checks of an estimator, as far as they apply to one that takes images.

The others hand an estimator tables `[N, features]` of random numbers, sparse matrices, complex
numbers or text, which are no images, or fit such tables twice. `Learner` refuses them all with one
sentence, which tests/learner/test_inputs.py shows.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks as checks

from remnant import Learner
from tests.support.small_learner import stripes, tiny_learner

APPLY = (
    "check_no_attributes_set_in_init",
    "check_get_params_invariance",
    "check_set_params",
    "check_parameters_default_constructible",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_do_not_raise_errors_in_init_or_set_param",
    "check_mixin_order",
)


@pytest.mark.parametrize("name", [name for name in APPLY if hasattr(checks, name)])
def test_a_check_of_scikit_learn(name: str) -> None:
    getattr(checks, name)("Learner", Learner())


def test_most_of_the_checks_exist_in_this_version() -> None:
    assert sum(hasattr(checks, name) for name in APPLY) >= 6


def test_it_is_the_last_step_of_a_pipeline() -> None:
    images, labels = stripes("a", "c")
    pipeline = make_pipeline(FunctionTransformer(lambda given: 255 - given), tiny_learner())
    pipeline.fit(images, labels)
    assert pipeline.score(images, labels) > 0.9
    assert pipeline.predict_proba(images).shape == (len(images), 2)


def test_it_can_be_cross_validated() -> None:
    images, labels = stripes("a", "c", per_class=9)
    scores = cross_val_score(tiny_learner(), np.asarray(images), np.asarray(labels), cv=3)
    assert scores.mean() > 0.8


def test_a_clone_knows_nothing() -> None:
    learner = tiny_learner().partial_fit(*stripes("a"))
    assert not clone(learner).__sklearn_is_fitted__()
    assert clone(learner).get_params() == learner.get_params()
