"""What every method must do; each check says in its error what must hold."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from remnant.memory import KeptTensors, MemoryConfig
from remnant.methods import Method, MethodConfig
from remnant.testing.presentation_checks import check_presentation
from remnant.testing.tiny_stream import SHAPE
from remnant.testing.trial import InterruptEachPhase, Interrupted, StopAt, Trial, TrialRun
from remnant.training.network_state import method_state
from remnant.training.task_loop import empty_tasks

State = tuple[dict[str, np.ndarray], Any]  # arrays, and metadata of the memory
_MAX_RESUMES = 200
_COMPARED_STEPS = 4


def check_method(
    method: type[Method[Any]],
    config: MethodConfig | None = None,
    memory: MemoryConfig | None = None,
    task_sizes: tuple[int, ...] = (2, 2),
) -> None:
    """Run every check on a method; it need not be registered. Takes about ten seconds.

    Args:
        method: A subclass of `Method`.
        config: Settings with which it learns 16 images of each class, 16 x 16 pixels, in seconds;
            by default those of `small_config`.
        memory: By default six raw images of each class, if the method uses a memory.
        task_sizes: New classes of each task.

    Raises:
        AssertionError: The method breaks a rule, which the message names.
    """
    for check in checks_for(method, config, memory, task_sizes):
        check()


def checks_for(
    method: type[Method[Any]],
    config: MethodConfig | None = None,
    memory: MemoryConfig | None = None,
    task_sizes: tuple[int, ...] = (2, 2),
) -> list[Check]:
    """The checks of `check_method` one by one, for a test each; arguments are the same.

    @pytest.mark.parametrize("check", checks_for(MyMethod), ids=str)
    def test_my_method(check):
        check()
    """
    trial = Trial.of(method, config, memory, task_sizes)
    return [Check(trial, function) for function in CHECKS]


@dataclass(frozen=True)
class Check:
    """One check of one method; its name is that of both."""

    trial: Trial
    function: Callable[[Trial], None]

    def __call__(self) -> None:
        with torch.random.fork_rng(devices=[]):
            self.function(self.trial)

    def __str__(self) -> str:
        return f"{self.trial.name}-{self.function.__name__}"


# --------------------------------------------------------------------------------- before training


def check_config(trial: Trial) -> None:
    """The settings name the method and survive a config.json."""
    kind, config = trial.method.Config, trial.config
    name = kind.model_fields["name"].default
    assert isinstance(name, str), f"{kind.__name__}.name must have the method's name as default"
    assert isinstance(config, kind), (
        f"config must be a {kind.__name__}; got {type(config).__name__}"
    )
    again = kind.parse(config.model_dump(mode="json"))
    assert again == config, f"{kind.__name__} must be equal after a round trip through JSON"


def check_shapes(trial: Trial) -> None:
    """Without data or training, the network grows with the tasks and scores all classes seen."""
    with torch.device("meta"):
        trial.build()  # as `remnant run` does before it starts: shapes alone
    method = trial.build().eval()
    num_seen = 0
    for task in empty_tasks(trial.task_sizes, SHAPE):
        method.grow(task)
        num_seen += task.num_new_classes
        views = torch.zeros(3, SHAPE[2], *SHAPE[:2])
        with torch.no_grad():
            scores, features = method.predict(views), method.features(views)
        assert scores.shape == (3, num_seen), (
            f"predict must give a score per image and class seen, [3, {num_seen}] after "
            f"{task.index + 1} tasks; got {list(scores.shape)}"
        )
        assert features.ndim == 2, (
            f"features must give a vector per image, [3, D]; got {list(features.shape)}"
        )
        assert len(features) == 3, f"features must give 3 vectors for 3 images; got {len(features)}"


def check_same_seed(trial: Trial) -> None:
    """The same seed gives the same weights, whatever the state of the global generator was."""
    first, second = (_learn_a_little(trial, seed) for seed in (0, 12345))
    rule = "two runs with the same seed must have the same weights after a few steps"
    _assert_equal(first, second, rule)


# ------------------------------------------------------------------------------------ one whole run


def check_learning(trial: Trial) -> None:
    """After each task, the newest classes are recognised among all classes seen."""
    for index, accuracy in enumerate(trial.whole.notes.accuracies):
        chance = 1 / sum(trial.task_sizes[: index + 1])
        wanted = (1 + chance) / 2
        assert accuracy >= wanted, (
            f"after {index + 1} tasks the newest classes must be right for {wanted:.0%} of their "
            f"images; got {accuracy:.0%}, and chance gives {chance:.0%}. Give more epochs or "
            "another learning rate if the method needs them"
        )


def check_memory(trial: Trial) -> None:
    """The memory is used if the method says so, holds every class seen and stays in its budget."""
    memory, notes = trial.whole.method.memory, trial.whole.notes
    if not trial.method.uses_memory:
        assert memory is None, "a method with uses_memory=False must have no memory"
        return
    assert memory is not None, "a method with uses_memory=True must keep the memory of its context"
    used = [kept.get("memory", 0) for kept in notes.kept]
    for index, (nbytes, budget) in enumerate(zip(used, notes.budgets, strict=True)):
        assert 0 < nbytes <= budget, (
            f"after {index + 1} tasks the memory must hold between 1 and {budget:,} bytes; it "
            f"holds {nbytes:,}"
        )
    num_classes = sum(trial.task_sizes)
    assert memory.labels == list(range(num_classes)), (
        f"the memory must hold all {num_classes} classes at the end; it holds {memory.labels}. "
        "end_task must call remember, or a phase before it"
    )


def check_kept(trial: Trial) -> None:
    """All that outlives a task is counted once, and predictions need nothing but the network."""
    method = trial.whole.method
    kept = method.kept()
    is_counted = method.memory is None or any(one is method.memory for one in kept)
    assert is_counted, "kept must list the memory: return [*super().kept(), ...]"
    names = [one.name for one in kept]
    reserved = {"network", "model", "optimizer"} & {*names}
    assert not reserved, f"kept must not use the reserved names {sorted(reserved)}"
    tensors = [
        tensor for one in kept if isinstance(one, KeptTensors) for tensor in one.tensors.values()
    ]
    found = trial.whole.notes.kept[-1]
    stored = sum(one.nbytes for one in kept if not isinstance(one, KeptTensors))
    state = {one.data_ptr(): one.nbytes for one in method.state_dict().values()}
    assert sum(found.values()) == stored + sum(state.values()), (
        "network and kept must add up to the state of the method and its stores"
    )
    for index, after in enumerate(trial.whole.notes.kept):
        empty = [name for name, nbytes in after.items() if nbytes <= 0]
        assert not empty, f"after {index + 1} tasks nothing is kept as {empty}: do not list it"
    assert _predicts_without(method, tensors), (
        f"predict must not need what is kept beside the network ({', '.join(names)}): list only "
        "tensors that later tasks need"
    )


def check_reads(trial: Trial) -> None:
    """Training images are read during their own task and never before or after it."""
    wrong = sorted(pair for pair in trial.whole.notes.reads.found if pair[0] != pair[1])
    assert not wrong, (
        "a task must read its own training images alone; these pairs (current task, task of the "
        f"images) were read: {wrong}"
    )


def check_gradients(trial: Trial) -> None:
    """The parameters of a phase get a gradient at some step of it, and no others do."""
    notes = trial.whole.notes
    assert bool(notes.gradients) == trial.method.trains, (
        "phases must yield at least one phase with parameters, or trains must be False"
    )
    idle = sorted(place for place, has_gradient in notes.gradients.items() if not has_gradient)
    assert not idle, f"these parameters (task, phase, name) of a phase never get a gradient: {idle}"
    assert not notes.strays, (
        f"these parameters (task, phase, name) get a gradient outside of their phase: "
        f"{sorted(notes.strays)}"
    )


def check_resume(trial: Trial) -> None:
    """A run that is interrupted in every phase and resumed ends as one that never stopped."""
    watcher = InterruptEachPhase()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(_MAX_RESUMES):
            run = TrialRun(trial, Path(folder))
            if _learn(run, watcher):
                break
        else:
            raise AssertionError(f"a resumed run must come to its end; got {_MAX_RESUMES} phases")
    reached = {(task, phase) for task, phase, _ in watcher.done}
    phases = {(task, phase) for task, phase, _ in trial.whole.notes.gradients}
    assert reached == phases, (
        f"a resumed run must have the phases {sorted(phases)}; it has {sorted(reached)}"
    )
    rule = (
        "a run that is resumed must end as one that never stopped; begin_task and the code between "
        "phases must depend on weights and memory alone, and what outlives a task must be a "
        "parameter, a buffer, or in kept"
    )
    _assert_equal(trial.whole.state(), run.state(), rule)


CHECKS: tuple[Callable[[Trial], None], ...] = (
    check_config,
    check_shapes,
    check_same_seed,
    check_learning,
    check_memory,
    check_kept,
    check_reads,
    check_gradients,
    check_presentation,
    check_resume,
)


# ------------------------------------------------------------------------------------------ pieces


def _learn_a_little(trial: Trial, seed: int) -> State:
    """The network after a few steps, where random numbers had another `seed` before."""
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(seed)
        run = TrialRun(trial, Path(folder))
        _learn(run, StopAt(_COMPARED_STEPS))
    return method_state(run.method), None


def _learn(run: TrialRun, watcher: Any) -> bool:
    """Whether the run came to its end; False: the watcher interrupted it."""
    try:
        run.learn(watcher)
    except Interrupted:
        return False
    return True


def _assert_equal(expected: State, found: State, rule: str) -> None:
    arrays, others = expected[0], found[0]
    missing = sorted(arrays.keys() ^ others.keys())
    assert not missing, f"{rule}; only one of both has {missing}"
    wrong = [name for name in arrays if arrays[name].tobytes() != others[name].tobytes()]
    assert not wrong, f"{rule}; these differ: {', '.join(wrong)}"
    assert expected[1] == found[1], f"{rule}; the metadata of the memory differ"


@torch.no_grad()
def _predicts_without(method: Method[Any], tensors: list[torch.Tensor]) -> bool:
    """Whether predictions stay the same when these tensors are overwritten for a moment."""
    views = torch.linspace(-1, 1, SHAPE[0] * SHAPE[1] * SHAPE[2]).view(1, SHAPE[2], *SHAPE[:2])
    before, values = method.eval().predict(views), [tensor.clone() for tensor in tensors]
    for tensor in tensors:
        tensor.fill_(float("nan") if tensor.is_floating_point() else 0)
    after = method.predict(views)
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)
    return torch.equal(before, after)
