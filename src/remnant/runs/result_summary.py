"""The result of a run so far: its predictions, what it cost and what it keeps, as numbers."""

from __future__ import annotations

from typing import Any

from remnant import metrics
from remnant.config import RunConfig
from remnant.data.spec import DATASETS
from remnant.data.stream import TaskStream
from remnant.methods import Decides, Method, kept_bytes
from remnant.runs.events import Counters
from remnant.runs.run_folder import Decision, MemoryResult, RunResult


def summarise(
    config: RunConfig,
    stream: TaskStream,
    method: Method[Any],
    counters: Counters,
    predictions: list[Any],
) -> RunResult:
    """The result after as many tasks as there are predictions, read back from the run folder."""
    order = config.stream.order
    if order == "default" and config.stream.task_classes is None:
        order = DATASETS[config.data.dataset].facts.default_order
    found = method.decisions() if isinstance(method, Decides) else []
    return RunResult(
        recipe=config.recipe,
        method=config.method.name,
        dataset=config.data.dataset,
        seed=config.seed,
        order=order,
        task_sizes=list(stream.task_sizes),
        class_names=list(stream.class_names),
        parameters=counters.parameters_per_task[-1],
        kept_bytes=kept_bytes(method),
        flops_per_image={"predict": counters.predict_flops_per_task[-1]},
        memory=_memory_result(method, counters),
        decisions=[Decision.model_validate(one) for one in found],
        train_seconds=round(counters.train_seconds, 3),
        train_images_per_second=round(counters.train_images / max(counters.train_seconds, 1e-9), 2),
        seconds_per_task=[round(seconds, 3) for seconds in counters.seconds_per_task],
        parameters_per_task=counters.parameters_per_task,
        predict_flops_per_task=counters.predict_flops_per_task,
        train_flops=counters.train_flops,
        passes_over_new=counters.passes_over_new,
        **metrics.summary(predictions, stream.task_of_label),
    )


def _memory_result(method: Method[Any], counters: Counters) -> MemoryResult:
    memory = method.memory
    if memory is None:
        return MemoryResult()
    return MemoryResult(
        budget_bytes=memory.budget_bytes,
        used_bytes=memory.nbytes,
        exemplars_per_class=memory.counts,
        ledger=memory.ledger(),
        digest=memory.digest(),
        working_bytes=counters.working_bytes,
    )
