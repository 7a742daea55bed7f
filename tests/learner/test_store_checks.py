"""The network of every method has an outline: names, types and shapes without numbers."""

from __future__ import annotations

import pytest

from remnant.errors import InputError
from remnant.learner import store_checks
from remnant.learner.learner_state import LearnerConfig
from remnant.methods import METHODS, build_method
from remnant.training.network_state import explain_misfit, method_state
from remnant.training.task_loop import empty_tasks
from tests.support.tiny_methods import TRIALS


def config_of(name: str) -> LearnerConfig:
    trial = TRIALS[name]()
    return LearnerConfig(
        image_size=16,
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        memory=trial.memory,
        method=trial.config,
    )


@pytest.mark.parametrize("name", TRIALS)
def test_every_method_has_an_outline_which_its_arrays_fit(name: str) -> None:
    config, sizes = config_of(name), (3,) if METHODS[name].learns_once else (2, 1)
    method = build_method(config, config.image_shape, sizes)
    for task in empty_tasks(sizes, config.image_shape):
        method.grow(task)
    arrays = method_state(method)
    outline = store_checks._outline(config, sizes, len(arrays), "the store")
    assert outline is not None
    assert all(tensor.is_meta for tensor in outline.state_dict().values())
    assert explain_misfit(outline, arrays) is None
    store_checks.check_network(config, sizes, arrays, "the store")
    arrays.popitem()
    with pytest.raises(InputError, match="is missing"):
        store_checks.check_network(config, sizes, arrays, "the store")


MEASURED = {
    "measured_on": "held out",
    "measured_images": 9,
    "class_accuracy": [["a", 90.0]],
    "class_accuracy_before": [["a", 95.0]],
}


@pytest.mark.parametrize("missing", MEASURED)
def test_half_of_what_was_measured_is_refused(missing: str) -> None:
    whole = {
        "when": "2026-01-01",
        "classes": ["b"],
        "known_classes": ["a"],
        "seconds": 1.0,
        "memory_bytes": 9,
        "accuracy": 90.0,
        **MEASURED,
    }
    store_checks.check_history((whole,), "the store")
    for part in ({name: whole[name] for name in whole if name != missing}, whole | {missing: None}):
        with pytest.raises(InputError, match="update 1"):
            store_checks.check_history((part,), "the store")
