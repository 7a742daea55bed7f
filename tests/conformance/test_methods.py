"""What every method must do: the checks of `remnant.testing`, for every entry of METHODS."""

from __future__ import annotations

from typing import Any

import pytest

from remnant.methods import METHODS
from remnant.testing import CHECKS, Check
from tests.support.tiny_methods import TRIALS, VARIANTS

# One trial for all checks of a method, since most look at the same run.
ALL = [
    Check(trial, function) for make in TRIALS.values() for trial in [make()] for function in CHECKS
]
OTHERS = {
    f"{name}, {function.__name__}": Check(trial, function)
    for name, make in VARIANTS.items()
    for trial in [make()]
    for function in CHECKS
}


def test_every_method_has_a_trial() -> None:
    assert set(TRIALS) == set(METHODS), "add the method to tests/support/tiny_methods.py"


def _marked(check: Check) -> Any:
    """The checks of a method that trains an encoder for 224 px take a minute."""
    is_long = check.trial.config.name == "tuned"
    return pytest.param(check, marks=pytest.mark.slow if is_long else (), id=str(check))


@pytest.mark.parametrize("check", [_marked(check) for check in ALL])
def test_method(check: Check) -> None:
    check()


@pytest.mark.parametrize("check", OTHERS.values(), ids=OTHERS)
def test_variant(check: Check) -> None:
    check()
