"""Tasks of one class, which a softmax over the classes of a task cannot learn."""

from __future__ import annotations

from typing import Any

import pytest

from remnant.errors import InputError
from remnant.images import Task
from tests.support.small_bimae import make_trainer, noise_set
from tests.support.small_residual import learn_task, make_residual

LOCAL = [("lwf", "new"), ("ewc", "new"), ("finetune", "new"), ("gem", "task"), ("a-gem", "task")]


def begin_with_one_class(name: str, softmax_over: str) -> Any:
    trainer = make_trainer()
    method = make_residual(name, softmax_over=softmax_over)
    learn_task(method, 0, trainer)
    task = Task(1, 2, 2, ("noise 2",), noise_set([2] * 6))
    method.begin_task(task, trainer.reader)
    return next(method.phases(task, trainer.reader))


@pytest.mark.parametrize(("name", "softmax_over"), LOCAL)
def test_a_single_new_class_is_refused(name: str, softmax_over: str) -> None:
    with pytest.raises(InputError, match=r"task 2 has only one\. Set method\.softmax_over=seen"):
        begin_with_one_class(name, softmax_over)


@pytest.mark.parametrize("name", [name for name, _ in LOCAL])
def test_over_all_classes_it_is_learned(name: str) -> None:
    assert begin_with_one_class(name, "seen").name == "train"
