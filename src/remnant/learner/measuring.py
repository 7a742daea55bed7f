"""What an update did to the classes, old and new: accuracy of each before and after.

Measured on a test set where one is given; else on images that the method held out by itself; else
on new images and exemplars held back from training. Old classes with too few exemplars to hold any
back are measured on those that were trained on, which says little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from remnant.errors import InputError, amount
from remnant.images import ImageSet
from remnant.learner.inputs import Label
from remnant.methods import Method
from remnant.training.reader import ViewReader

MeasuredOn = Literal["test", "held-out", "held-out and exemplars"]
Shares = dict[Label, float]  # percent of a class's images that are right


class GuardError(InputError):
    """An update took more from an old class than the user allows; nothing was changed."""


class UncheckedGuardError(GuardError):
    """An update was not begun, since nothing could say what it takes from an old class."""


@dataclass(frozen=True)
class Measured:
    """Accuracy in percent, of all images and of each class, and of old classes before."""

    on: MeasuredOn
    num_images: int
    accuracy: float | None  # None: there were exemplars alone, which were trained on
    after: Shares
    before: Shares
    num_old_images: dict[Label, int]  # of each class in `before`

    def entry(self) -> dict[str, Any]:
        """For the history of a learner: names in lists, so that forgetting finds them."""
        return {
            "accuracy": None if self.accuracy is None else round(self.accuracy, 2),
            "measured_on": self.on,
            "measured_images": self.num_images,
            "class_accuracy": [[name, round(share, 2)] for name, share in self.after.items()],
            "class_accuracy_before": [
                [name, round(share, 2)] for name, share in self.before.items()
            ],
        }

    def _kind(self, name: Label) -> str:
        what = {"test": "test image", "held-out": "held-out image"}.get(self.on, "exemplar")
        return amount(self.num_old_images[name], what)

    def check(self, guard: float) -> None:
        """Refuse if an old class fell by more than `guard` points.

        Raises:
            GuardError: Names the class that fell most.
        """
        falls = {
            name: share - self.after[name]
            for name, share in self.before.items()
            if name in self.after
        }
        fallen = [name for name, fall in falls.items() if fall > guard]
        fallen.sort(key=lambda name: falls[name], reverse=True)
        if fallen:
            worst = fallen[0]
            raise GuardError(
                f"{name_classes(fallen)} would fall from {self.before[worst]:.1f} to "
                f"{self.after[worst]:.1f} % of its {self._kind(worst)}, more than the guard of "
                f"{guard:g} points "
                "allows. Nothing was changed. Give more images of it, or a larger guard."
            )


def name_classes(names: Sequence[Label]) -> str:
    """The first of some classes, and how many others there are."""
    others = len(names) - 1
    unit = "class" if others == 1 else "classes"
    return f"{names[0]!r} (and {others:,} more {unit})" if others else repr(names[0])


def class_shares(labels: Tensor, best: Tensor, classes: tuple[Label, ...]) -> Shares:
    """Percent right of each class that has images; labels and predictions int64 [N]."""
    is_right = labels == best
    return {
        classes[label]: 100 * float(is_right[labels == label].double().mean())
        for label in labels.unique().tolist()
    }


def measure_update(
    classes: tuple[Label, ...],
    before: Method[Any] | None,
    after: Method[Any],
    num_old: int,
    reader: ViewReader,
    *,
    test: ImageSet | None,
    held_out: Sequence[ImageSet],
    trained_on: ImageSet | None,
) -> Measured | None:
    """None where there is nothing to measure with.

    Args:
        classes: Known after the update; those known before come first.
        before: The method before the update.
        after: The method after it.
        num_old: Classes known before.
        reader: Reads the images.
        test: Images of any of the classes.
        held_out: New images and exemplars that the update was not trained on.
        trained_on: Exemplars of old classes that have too few to hold any back.
    """

    def found(images: ImageSet) -> _Found:
        return _predict(images, before, after, num_old, reader)

    if test is not None:
        return _measured("test", [found(test)], None, classes)
    own = after.held_out()
    if own is not None:
        earlier = None if before is None else before.held_out()
        return _on_own(own, earlier, classes)
    rest = None if trained_on is None else found(trained_on)
    return _measured(
        "held-out" if rest is None else "held-out and exemplars",
        [found(images) for images in held_out],
        rest,
        classes,
    )


@dataclass(frozen=True)
class _Found:
    """Predictions for some images, int64 [N]; those before the update for old classes alone."""

    labels: Tensor
    after: Tensor
    old_labels: Tensor
    before: Tensor


def _predict(
    images: ImageSet,
    before: Method[Any] | None,
    after: Method[Any],
    num_old: int,
    reader: ViewReader,
) -> _Found:
    best = reader.apply(after.predict, images).argmax(dim=1)
    old = images.select((images.labels < num_old).nonzero()[:, 0])
    if before is None or not len(old):
        nothing = images.labels[:0]
        return _Found(images.labels, best, nothing, nothing)
    then = reader.apply(before.predict, old).argmax(dim=1)
    return _Found(images.labels, best, old.labels, then)


def _measured(
    on: MeasuredOn, untrained: list[_Found], rest: _Found | None, classes: tuple[Label, ...]
) -> Measured | None:
    parts = [*untrained, *([] if rest is None else [rest])]
    if not parts:
        return None
    labels, best, old, then = (
        torch.cat([getattr(part, name) for part in parts])
        for name in ("labels", "after", "old_labels", "before")
    )
    is_right = [part.labels == part.after for part in untrained]
    return Measured(
        on=on,
        num_images=sum(map(len, is_right)),
        accuracy=100 * float(torch.cat(is_right).double().mean()) if is_right else None,
        after=class_shares(labels, best, classes),
        before=class_shares(old, then, classes),
        num_old_images={classes[label]: int((old == label).sum()) for label in old.unique()},
    )


def _on_own(
    own: tuple[Tensor, Tensor],
    earlier: tuple[Tensor, Tensor] | None,
    classes: tuple[Label, ...],
) -> Measured:
    labels, scores = own
    best = scores.argmax(dim=1)
    before: Shares = {}
    if earlier is not None:
        before = class_shares(earlier[0], earlier[1].argmax(dim=1), classes)
    return Measured(
        on="held-out",
        num_images=len(labels),
        accuracy=100 * float((best == labels).double().mean()),
        after=class_shares(labels, best, classes),
        before=before,
        num_old_images={name: int((labels == classes.index(name)).sum()) for name in before},
    )
