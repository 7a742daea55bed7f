"""Tasks of one class, which a softmax over the classes of a task cannot learn."""

from __future__ import annotations

import pytest

from remnant.config import override
from remnant.errors import InputError
from remnant.recipes import load_recipe
from remnant.runs.experiment import validate_run

LOCAL = [("lwf", "new"), ("ewc", "new"), ("finetune", "new"), ("gem", "task"), ("a-gem", "task")]


def validate(name: str, softmax_over: str, sizes: list[int]) -> None:
    changes = {"stream.task_sizes": sizes, "stream.num_tasks": None}
    changes |= {"method.softmax_over": softmax_over}
    validate_run(override(load_recipe(f"digits-{name}"), changes))


@pytest.mark.parametrize(("name", "softmax_over"), LOCAL)
def test_a_single_new_class_is_refused_before_any_training(name: str, softmax_over: str) -> None:
    with pytest.raises(InputError, match=r"task 3 has only one\. Set method\.softmax_over=seen"):
        validate(name, softmax_over, [2, 7, 1])


@pytest.mark.parametrize(("name", "softmax_over"), LOCAL)
def test_a_first_class_alone_is_not(name: str, softmax_over: str) -> None:
    validate(name, softmax_over, [1, 9])


@pytest.mark.parametrize("name", [name for name, _ in LOCAL])
def test_over_all_classes_it_can_be_learned(name: str) -> None:
    validate(name, "seen", [2, 7, 1])
