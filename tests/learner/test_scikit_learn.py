"""scikit-learn's own checks of an estimator, as far as they apply to one that takes images.

`Learner` says by its tags that it takes images. scikit-learn then leaves out the checks that hand
an estimator tables `[N, features]`; `NOT_APPLICABLE` lists them.
"""

from __future__ import annotations

from unittest import SkipTest

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import SkipTestWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import Tags
from sklearn.utils import estimator_checks as checks

from remnant import Learner
from tests.support.small_learner import stripes, tiny_learner

TABLES = "fits a table [N, features] of random numbers, which are no images"
WORDING = "wants an error in scikit-learn's words, about features of a table; ours is about images"
# What scikit-learn would check of a classifier of tables, and why it does not apply to images.
NOT_APPLICABLE = {
    "check_fit_score_takes_y": TABLES,
    "check_estimators_overwrite_params": TABLES,
    "check_dont_overwrite_parameters": TABLES,
    "check_estimators_fit_returns_self": TABLES,
    "check_readonly_memmap_input": TABLES,
    "check_n_features_in_after_fitting": TABLES,
    "check_positive_only_tag_during_fit": TABLES,
    "check_estimators_dtypes": TABLES,
    "check_dtype_object": TABLES,
    "check_pipeline_consistency": TABLES,
    "check_estimators_pickle": TABLES,
    "check_f_contiguous_array_estimator": TABLES,
    "check_classifier_data_not_an_array": TABLES,
    "check_classifiers_classes": TABLES,
    "check_classifiers_train": TABLES,
    "check_supervised_y_2d": TABLES,
    "check_methods_sample_order_invariance": TABLES,
    "check_methods_subset_invariance": TABLES,
    "check_dict_unchanged": TABLES,
    "check_fit_idempotent": TABLES,
    "check_fit_check_is_fitted": TABLES,
    "check_n_features_in": TABLES,
    "check_fit2d_predict1d": TABLES,
    "check_complex_data": WORDING,
    "check_estimators_empty_data_messages": WORDING,
    "check_estimators_nan_inf": WORDING,
    "check_estimator_sparse_array": WORDING,
    "check_estimator_sparse_matrix": WORDING,
    "check_fit2d_1sample": WORDING,
    "check_fit2d_1feature": WORDING,
    "check_requires_y_none": WORDING,
    "check_classifiers_regression_target": WORDING,
    "check_classifiers_one_label": TABLES,
    "check_estimators_partial_fit_n_features": "partial_fit takes no `classes`: they need not be "
    "known before",
    "check_array_api_input": "needs SCIPY_ARRAY_API",
}


class OfTables(Learner):
    """As if it took tables, so that scikit-learn lists all of its checks."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


def test_check_estimator_passes() -> None:
    """By its tags it takes images, so that scikit-learn itself leaves out what is for tables."""
    with pytest.warns(SkipTestWarning, match="Can't test estimator Learner which requires input"):
        outcomes = checks.check_estimator(Learner(quiet=True), on_skip=None)
    assert {one["status"] for one in outcomes} == {"passed"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_check_of_a_classifier_passes_or_does_not_apply() -> None:
    passed, failed = set(), set()
    for learner, check in checks.estimator_checks_generator(OfTables(quiet=True), legacy=True):
        name = check.func.__name__
        try:
            check(learner)
        except (Exception, SkipTest):
            failed.add(name)
        else:
            passed.add(name)
    assert failed - NOT_APPLICABLE.keys() == set()
    assert len(passed) >= 15


@pytest.mark.parametrize(
    "name",
    [
        "check_no_attributes_set_in_init",
        "check_get_params_invariance",
        "check_set_params",
        "check_parameters_default_constructible",
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimators_unfitted",
        "check_mixin_order",
    ],
)
def test_a_check_of_scikit_learn(name: str) -> None:
    getattr(checks, name)("Learner", Learner())


def test_images_are_fitted_as_scikit_learn_wants_tables_to_be() -> None:
    """What the checks that do not apply are about: nothing given changes, and fit starts over."""
    images, labels = stripes("a", "c")
    given, learner = images.copy(), tiny_learner()
    parameters = learner.get_params()
    assert learner.fit(images, labels) is learner
    assert learner.get_params() == parameters
    assert np.array_equal(images, given)
    shares = learner.predict_proba(images)
    assert np.array_equal(learner.fit(images, labels).predict_proba(images), shares)
    order = np.random.default_rng(0).permutation(len(images))
    np.testing.assert_allclose(learner.predict_proba(images[order]), shares[order], atol=1e-6)
    np.testing.assert_allclose(learner.predict_proba(images[:3]), shares[:3], atol=1e-6)


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
