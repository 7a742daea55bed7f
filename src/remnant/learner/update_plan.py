"""An update before it starts: input read and checked, settings chosen."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

import torch

from remnant._version import __version__
from remnant.config import override
from remnant.data.fingerprints import fingerprint
from remnant.encoders import describe_encoder
from remnant.errors import InputError, amount
from remnant.images import Images, ImageSet, Task
from remnant.learner import defaults
from remnant.learner.decoded_inputs import measure_colours, shorter_side
from remnant.learner.encoder_choice import SCRATCH, choose_encoder
from remnant.learner.held_exemplars import ENOUGH, EVERY, Ranks, choose_held
from remnant.learner.inputs import Label, RawInputs, gather_labelled
from remnant.learner.learner_state import LearnerConfig, LearnerParameters, LearnerState
from remnant.learner.measuring import UncheckedGuardError, name_classes
from remnant.learner.network_sizes import choose_image_size
from remnant.learner.usable_images import UsableImages, read_usable, shared_with
from remnant.methods import METHODS
from remnant.training.devices import Accelerator

_REBUILT = ("encoder", "method", "image_size")  # can be changed by teaching exemplars again
_NOT_GIVEN = object()
# Parameters that the first update fixes.
FIXED = (
    "budget", "method", "encoder", "image_size", "codec", "width", "augment", "options", "seed",
)  # fmt: skip


@dataclass(frozen=True)
class UpdatePlan:
    """An update whose input has been read and checked."""

    config: LearnerConfig  # with the schedule of this update
    classes: tuple[Label, ...]  # old ones, then new ones
    task: Task
    test: ImageSet | None
    held_back: ImageSet | None  # of the new images, where nothing else measures the accuracy
    held_exemplars: Ranks  # that are not replayed, for the same reason
    notes: tuple[str, ...]  # sentences for the user about the input
    why: str  # the method of the first update was chosen
    num_exemplars: int  # that are replayed
    data_digest: str
    state_digest: str | None  # of the state before the update

    @property
    def planned_images(self) -> list[int]:
        """Images that each task shows, for a progress bar: past updates show none."""
        if not self.trains:
            return [0] * (self.task.index + 1)
        passed = len(self.task.train) + self.num_exemplars
        return [0] * self.task.index + [passed * self.config.method.first.epochs]

    def describe(self) -> str:
        """The update in one line; the first one says what was chosen."""
        if self.task.index == 0:
            return f"{defaults.describe(self.config)} ({self.why})"
        if not self.trains:
            return amount(len(self.task.train), "image")
        return (
            f"{amount(len(self.task.train), 'image')} and "
            f"{amount(self.num_exemplars, 'exemplar')}, "
            f"{amount(self.config.method.first.epochs, 'epoch')}"
        )

    @property
    def trains(self) -> bool:
        return METHODS[self.config.method.name].trains

    def origin(self) -> str:
        """SHA-256 of all that decides the outcome of the update."""
        values = [
            __version__,
            self.config.model_dump(mode="json"),
            self.classes,
            self.task.index,
            self.data_digest,
            self.state_digest,
            self.test is None,  # whether images are held back
        ]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def plan_update(
    before: LearnerState | None,
    parameters: LearnerParameters,
    images: Any,
    labels: Any,
    test: Any,
    device: Accelerator,
) -> UpdatePlan:
    """Read all input and choose the settings that are not given; `check_plan` checks the rest.

    Raises:
        InputError: The input cannot be used.
    """
    if before is not None:
        _check_fixed(parameters, before)
    given = gather_labelled(images, labels)
    classes = (*(before.classes if before else ()), *_new_classes(before, given))
    tested = None if test is None else _gather_test(test, classes)
    config, usable, why = _choose_and_read(before, parameters, given, device)
    given, pixels, notes = usable.given, usable.images, [*usable.notes]
    index, num_old = (len(before.task_sizes), len(before.classes)) if before else (0, 0)
    names = tuple(str(name) for name in classes[num_old:])
    images, held_back, held = _image_set(pixels, given, classes), None, Ranks()
    if tested is None and METHODS[config.method.name].trains:
        images, held_back = _hold_back(images)
        if before is not None:
            held = choose_held(before.method.memory, before.untrained)
    task = Task(index, index + 1, num_old, names, images)
    num_exemplars = (before.num_exemplars if before else 0) - sum(map(len, held.values()))
    num_images = len(task.train) + num_exemplars
    method = defaults.schedule_update(config.method, parameters, num_images, device)
    test_set = None
    if tested is not None:
        found = read_usable(tested, config.image_size, is_strict=parameters.strict)
        notes += [f"of the test images: {note}" for note in found.notes[:1]]
        notes += shared_with(given, pixels, found.given, found.images)
        test_set = _image_set(found.images, found.given, classes)
    data = f"{fingerprint(pixels)}{given.labels}"
    return UpdatePlan(
        config=config.model_copy(update={"method": method}),
        classes=classes,
        task=task,
        test=test_set,
        held_back=held_back,
        held_exemplars=held,
        notes=tuple(notes),
        why=why,
        num_exemplars=num_exemplars,
        data_digest=hashlib.sha256(data.encode()).hexdigest(),
        state_digest=before.digest() if before else None,
    )


def check_plan(plan: UpdatePlan, before: LearnerState, guard: float | None) -> UpdatePlan:
    """The plan of a later update, if it can be carried out, with what is to be said about it.

    An update that is already done is not checked: its own classes would count as old ones.

    Raises:
        InputError: The method cannot learn these classes, or the guard cannot be checked.
    """
    _check_task(plan.task, plan.config.method.name)
    plan.config.method.check_task(plan.task.index, plan.task.num_new_classes)
    return _check_guard(plan, before, guard)


def _choose_and_read(
    before: LearnerState | None,
    parameters: LearnerParameters,
    given: RawInputs,
    device: Accelerator,
) -> tuple[LearnerConfig, UsableImages, str]:
    """The config, chosen in the first update, the images at its size, and why it was chosen."""

    def read(size: int) -> UsableImages:
        return read_usable(given, size, is_strict=parameters.strict)

    if before is not None:
        return before.config, read(before.config.image_size), ""
    side = shorter_side(given)
    choice = choose_encoder(parameters, side)
    chosen = {"method": choice.method, "encoder": choice.encoder}
    settled = parameters.model_copy(update=chosen)
    if choice.encoder is not None:
        encoder = describe_encoder(choice.encoder)
        usable = read(parameters.image_size or encoder.image_size)
        colours = encoder.mean, encoder.std
    else:
        usable = read(parameters.image_size or choose_image_size(side, device))
        colours = measure_colours(usable.images)
    size = usable.images.shape[0]
    return defaults.choose_config(settled, size, *colours, device), usable, choice.why


def _hold_back(images: ImageSet) -> tuple[ImageSet, ImageSet | None]:
    """Images to train on, and every tenth of each class that has enough of them."""
    is_held = torch.zeros(len(images), dtype=torch.bool)
    for label in images.labels.unique().tolist():
        places = (images.labels == label).nonzero()[:, 0]
        if len(places) >= ENOUGH:
            is_held[places[EVERY - 1 :: EVERY]] = True
    if not is_held.any():
        return images, None
    return images.select((~is_held).nonzero()[:, 0]), images.select(is_held.nonzero()[:, 0])


def _image_set(images: Images, given: RawInputs, classes: tuple[Label, ...]) -> ImageSet:
    numbers = {name: number for number, name in enumerate(classes)}
    labels = torch.tensor([numbers[name] for name in given.labels or ()], dtype=torch.int64)
    return ImageSet(images, labels, torch.arange(len(labels)))


def _new_classes(before: LearnerState | None, given: RawInputs) -> list[Label]:
    known = before.classes if before else ()
    if len({isinstance(name, str) for name in (*known, *given.classes)}) > 1:
        raise InputError(
            "the classes of a learner must all be text or all be whole numbers; got both."
        )
    return [name for name in given.classes if name not in known]


def _gather_test(test: Any, classes: tuple[Label, ...]) -> RawInputs:
    pair = test if isinstance(test, tuple) and len(test) == 2 else (test, None)
    given = gather_labelled(*pair)
    unknown = [name for name in given.classes if name not in classes]
    if unknown:
        raise InputError(
            f"test images must be of classes that the learner knows after the update; got "
            f"{unknown[0]!r}. Leave them out."
        )
    return given


def _check_guard(plan: UpdatePlan, before: LearnerState, guard: float | None) -> UpdatePlan:
    """The plan, with a note if the method chooses what is measured and leaves out an old class.

    Raises:
        UncheckedGuardError: The guard does not see every old class, and the user can change that.
    """
    if guard is None:
        return plan
    measured = _measurable(plan, before)
    unseen = [name for name in before.classes if name not in measured]
    if not unseen:
        return plan
    names, remedy = name_classes(unseen), "Give test images of every old class"
    if plan.test is None and not plan.trains:
        # A fifth of the images is held out by chance, which can miss a small class.
        note = (
            f"the guard cannot be checked for {names}: there are no images to measure on. {remedy}."
        )
        return replace(plan, notes=(note, *plan.notes))
    raise UncheckedGuardError(
        f"the guard cannot be checked: there are no images to measure {names} on. {remedy}, or "
        "set no guard. Nothing was changed."
    )


def _measurable(plan: UpdatePlan, before: LearnerState) -> set[Label]:
    """Classes whose accuracy an update can measure; see `remnant.learner.measuring`."""
    own, memory = before.method.held_out(), before.method.memory
    if plan.test is not None:
        labels = plan.test.labels.unique().tolist()
    elif own is not None:
        labels = own[0].unique().tolist()
    elif memory is None or not plan.trains:
        labels = []
    else:
        labels = memory.labels
    return {plan.classes[label] for label in labels}


def _check_fixed(parameters: LearnerParameters, before: LearnerState) -> None:
    chosen = _chosen_values(before.config)
    for name in FIXED:
        now, then = getattr(parameters, name), getattr(before.parameters, name)
        if name == "options":
            now, then = _without_training(now), _without_training(then)
        if then is None and now is not None:  # it was chosen
            then = chosen.get(name)
        if _plain(now) != _plain(then):
            if name == "options":
                _refuse_options(now or {}, then or {}, before.config)
            raise InputError(
                f"{name} was fixed by the first update: {then!r}; got {now!r}. Leave it out"
                f"{_how_to_change(name)}"
            )


def _refuse_options(now: dict[str, Any], then: dict[str, Any], config: LearnerConfig) -> None:
    """Name the first option that differs.

    Raises:
        InputError: Always; of an option that is unknown, that it is.
    """
    key = next(
        key for key in (*now, *then) if now.get(key, _NOT_GIVEN) != then.get(key, _NOT_GIVEN)
    )
    if key not in now:
        raise InputError(
            f"{key} was fixed by the first update: {then[key]!r}; now it is not among the options. "
            "Give it again, or use another store or learner."
        )
    override(config, {key: now[key]})  # an unknown one is told as that
    was = then[key] if key in then else _value_of(config, key)
    raise InputError(
        f"{key} was fixed by the first update: {was!r}; got {now[key]!r}. Leave it out, or use "
        "another store or learner."
    )


def _value_of(config: LearnerConfig, key: str) -> Any:
    value: Any = config.model_dump(mode="json")
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _plain(value: Any) -> Any:
    """A codec of which no more than the name is given may be spelled in two ways."""
    return value["name"] if isinstance(value, dict) and set(value) == {"name"} else value


def _how_to_change(name: str) -> str:
    if name == "budget":
        return "; `remnant rebudget STORE BUDGET` changes it."
    how = ", or `remnant rebuild`" if name in _REBUILT else ""
    return f", or use another store or learner{how}."


def _chosen_values(config: LearnerConfig) -> dict[str, Any]:
    """Values chosen for parameters that the first update was not given."""
    encoder = getattr(config.method, "encoder", None)
    return {
        "method": config.method.name,
        "encoder": SCRATCH if encoder is None else encoder.name,
        "image_size": config.image_size,
        "codec": None if config.memory is None else config.memory.codec.name,
        "augment": config.augment.train,
    }


def _without_training(options: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (options or {}).items() if not key.startswith("training.")}


def _check_task(task: Task, method: str) -> None:
    if METHODS[method].learns_once and task.index > 0:
        raise InputError(f"{method} learns all classes in one update. Use fit, or another method.")
    if task.known_labels and not METHODS[method].takes_known_classes:
        able = [name for name, other in METHODS.items() if other.takes_known_classes]
        raise InputError(
            f"{method} cannot learn more images of a class that it already knows. Give new classes "
            f"only, or use {' or '.join(able)}."
        )
