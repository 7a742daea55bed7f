"""What an update says before it starts."""

from __future__ import annotations

from typing import Any

import pytest

from remnant.errors import InputError
from tests.support.small_learner import stripes, tiny_learner


def test_another_budget_is_told_the_command_for_it() -> None:
    learner = tiny_learner().partial_fit(*stripes("a", "c"))
    with pytest.raises(InputError) as told:
        learner.set_params(budget="9images/class").partial_fit(*stripes("e"))
    assert str(told.value) == (
        "budget was fixed by the first update: '6images/class'; got '9images/class'. Leave it out; "
        "`remnant rebudget STORE BUDGET` changes it."
    )


@pytest.mark.parametrize("codecs", [("raw", {"name": "raw"}), ({"name": "raw"}, "raw")])
def test_a_codec_may_be_spelled_in_another_way(codecs: tuple[Any, Any]) -> None:
    first, second = codecs
    learner = tiny_learner(codec=first).partial_fit(*stripes("a", "c"))
    learner.set_params(codec=second).partial_fit(*stripes("e"))
    assert list(learner.classes_) == ["a", "c", "e"]
    with pytest.raises(InputError, match="codec was fixed by the first update"):
        learner.set_params(codec={"name": "webp", "quality": 50}).partial_fit(*stripes("g"))


def test_one_image_is_told_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    learner = tiny_learner(epochs=1).partial_fit(*stripes("a", per_class=1))
    learner.set_params(quiet=False).partial_fit(*stripes("c", per_class=1))
    assert capsys.readouterr().err.startswith("1 image and 1 exemplar, 1 epoch\n")
    learner.set_params(epochs=2).partial_fit(*stripes("e", per_class=2))
    assert capsys.readouterr().err.startswith("2 images and 2 exemplars, 2 epochs\n")


def test_a_task_that_the_method_cannot_learn_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = tiny_learner().partial_fit(*stripes("a", "c"))
    before = learner.digest()

    def refuse(config: object, index: int, num_new_classes: int) -> None:
        raise InputError(f"no {num_new_classes} in task {index}")

    monkeypatch.setattr(type(learner.state_.config.method), "check_task", refuse)
    with pytest.raises(InputError, match="no 1 in task 1"):
        learner.partial_fit(*stripes("e"))
    assert learner.digest() == before
