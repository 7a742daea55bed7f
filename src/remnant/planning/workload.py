"""The FLOPs of a whole run from its rehearsal and its real numbers of images and exemplars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from remnant.phases import Phase
from remnant.planning.phase_work import PerClass, PhaseWork, is_whole
from remnant.planning.rehearsal import Rehearsal, TaskWork


@dataclass(frozen=True)
class TaskSize:
    """The real numbers of one task."""

    num_new_classes: int
    num_old_classes: int
    images_per_class: float
    exemplars_before: float  # of a class, when the task begins
    exemplars_after: float


def total_flops(rehearsal: Rehearsal, sizes: Sequence[TaskSize]) -> int:
    """What all tasks of a run take together; pruning is not foreseen, so it is the most."""
    return round(
        sum(
            _task_flops(rehearsal, _work_of(rehearsal.tasks, index), size)
            for index, size in enumerate(sizes)
        )
    )


def _work_of(tasks: Sequence[TaskWork], index: int) -> TaskWork:
    """The work of a task; beyond those rehearsed, networks grow on as from the second to the last.

    So do the FLOPs of an image: by a row of the classifier, a token or a whole network per task.
    """
    if index < len(tasks) or len(tasks) < 3:
        return tasks[min(index, len(tasks) - 1)]
    before, last, ahead = tasks[-2], tasks[-1], index - len(tasks) + 1

    def grown(old: float, new: float) -> float:
        return new + ahead * (new - old)

    old_phases = {work.name: work for work in before.phases}
    phases = [
        PhaseWork(
            work.name,
            work.phase,
            work.data,
            work.replay,
            {
                kind: grown(old_phases[work.name].flops.get(kind, flops), flops)
                if work.name in old_phases
                else flops
                for kind, flops in work.flops.items()
            },
        )
        for work in last.phases
    ]
    return TaskWork(
        phases,
        grown(before.per_new_image, last.per_new_image),
        grown(before.per_exemplar, last.per_exemplar),
        grown(before.per_old_exemplar, last.per_old_exemplar),
    )


def _task_flops(rehearsal: Rehearsal, work: TaskWork, size: TaskSize) -> float:
    num_seen = size.num_new_classes + size.num_old_classes
    between = (
        work.per_new_image * size.num_new_classes * size.images_per_class
        + work.per_exemplar * num_seen * size.exemplars_after
        + work.per_old_exemplar * size.num_old_classes * size.exemplars_before
    )
    return between + sum(_phase_flops(rehearsal, phase, size) for phase in work.phases)


def _phase_flops(rehearsal: Rehearsal, work: PhaseWork, size: TaskSize) -> float:
    schedule = work.phase.schedule
    data = _images(rehearsal, work.data, size, size.exemplars_after)
    replay = _images(rehearsal, work.replay, size, size.exemplars_before)
    first, last = work.phase.epochs or (0, schedule.epochs)
    draws = data if schedule.steps_from == "new" else data + replay
    steps_per_epoch = max(1, -(-round(draws) // schedule.batch_size))
    num_steps = steps_per_epoch * schedule.epochs
    steps = range(first * steps_per_epoch, last * steps_per_epoch)
    share_whole = sum(is_whole(work.phase, step, num_steps) for step in steps) / max(1, len(steps))
    old = _share_of_replay(work, data, replay, size)
    per_row = sum(
        share * ((1 - old) * _row(work, kind, False) + old * _row(work, kind, True))
        for kind, share in ((True, share_whole), (False, 1 - share_whole))
        if share > 0
    )
    return draws * (last - first) * per_row


def _images(
    rehearsal: Rehearsal, per_class: PerClass, size: TaskSize, exemplars_per_class: float
) -> float:
    """How many images a set has in the real run.

    A set that has nearly all images of a class is made of data, any other of exemplars.
    """
    total, between = 0.0, (rehearsal.exemplars_per_class + rehearsal.images_per_class) / 2
    for count, num_classes in zip(
        per_class, (size.num_new_classes, size.num_old_classes), strict=True
    ):
        if count is None:
            continue
        if count > between:
            total += num_classes * size.images_per_class * count / rehearsal.images_per_class
        else:
            share = count / rehearsal.exemplars_per_class
            total += num_classes * share * exemplars_per_class
    return total


def _share_of_replay(work: PhaseWork, data: float, replay: float, size: TaskSize) -> float:
    """Which part of the draws is replayed."""
    schedule = work.phase.schedule
    if replay == 0:
        return 0.0
    if schedule.sampling == "union":
        return replay / (data + replay)
    balanced = size.num_old_classes / (size.num_old_classes + size.num_new_classes)
    if schedule.sampling == "balanced":
        return balanced
    shares = [1 - balanced if share == "balanced" else share for share in schedule.new_share]
    return 1 - sum(shares) / len(shares)


def _row(work: PhaseWork, is_whole_step: bool, is_replay: bool) -> float:
    """FLOPs of a row, on average over how it is shown."""
    partial = 0.0 if is_whole_step else _share_in_part(work.phase, is_replay)
    flops = work.flops
    whole = flops.get((is_whole_step, is_replay, False))
    if whole is None:  # such a step is too rare to be found among few
        whole = flops.get((not is_whole_step, is_replay, False), 0.0)
    return partial * flops.get((is_whole_step, is_replay, True), whole) + (1 - partial) * whole


def _share_in_part(phase: Phase, is_replay: bool) -> float:
    """How often a row is shown by its known patches alone."""
    images = phase.replay if is_replay else phase.data
    if images is not None and images.is_known is not None:
        return phase.partial_view_ratio
    twins = None if is_replay or phase.aligns_new else phase.twins
    if twins is None or twins.is_known is None:
        return 0.0
    return phase.twin_ratio * phase.partial_view_ratio
