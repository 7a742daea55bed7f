"""What an update did to the classes, old and new: accuracy of each before and after.

Measured on a test set where one is given; else on images that the method held out by itself; else
on new images held back from training and, for old classes, on their exemplars. A method that trains
nothing is measured on 200 of those at most, unless a guard asks for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from remnant.errors import InputError
from remnant.images import ImageSet
from remnant.learner.inputs import Label
from remnant.methods import Method, replayed_memory
from remnant.training.reader import ViewReader

# Chosen: of a method that trains nothing, whose update would otherwise take as long as its store is
# large. One that trains has replayed them all, epoch after epoch.
_MOST_EXEMPLARS = 200
MeasuredOn = Literal["test", "held-out", "held-out and exemplars"]
Shares = dict[Label, float]  # percent of a class's images that are right


class GuardError(InputError):
    """An update took more from an old class than the user allows; nothing was changed."""


@dataclass(frozen=True)
class Measured:
    """Accuracy in percent, of all images and of each class, and of old classes before."""

    on: MeasuredOn
    num_images: int
    accuracy: float | None  # None: there were images of old classes alone, which were trained on
    after: Shares
    before: Shares

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
        worst = max(falls, key=lambda name: falls[name], default=None)
        if worst is not None and falls[worst] > guard:
            others = sum(fall > guard for fall in falls.values()) - 1
            more = f" (and {others} more classes)" if others else ""
            raise GuardError(
                f"{worst!r}{more} would fall from {self.before[worst]:.1f} to "
                f"{self.after[worst]:.1f} % of its images, more than the guard of {guard:g} points "
                "allows. Nothing was changed. Give more images of it, or a larger guard."
            )


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
    test: ImageSet | None,
    held_back: ImageSet | None,
    reader: ViewReader,
    *,
    is_guarded: bool = False,
) -> Measured | None:
    """None where there is nothing to measure with.

    Args:
        classes: Known after the update; those known before come first.
        before: The method before the update.
        after: The method after it.
        num_old: Classes known before.
        test: Images of any of the classes.
        held_back: New images that were not trained on.
        reader: Reads them.
        is_guarded: Every class must be measured.
    """
    if test is not None:
        return _on_images("test", test, classes, before, after, num_old, reader)
    own = after.held_out()
    if own is not None:
        earlier = None if before is None else before.held_out()
        return _on_own(own, earlier, classes)
    exemplars = None
    if before is not None and before.memory is not None:
        if before.trains or is_guarded:
            exemplars = replayed_memory(before, reader)
        else:
            exemplars = before.memory.images(most=_MOST_EXEMPLARS)
    parts = [part for part in (held_back, exemplars) if part is not None and len(part)]
    if not parts:
        return None
    found = [
        _on_images("held-out and exemplars", part, classes, before, after, num_old, reader)
        for part in parts
    ]
    return Measured(
        on="held-out and exemplars" if exemplars is not None else "held-out",
        num_images=found[0].num_images,
        accuracy=None if held_back is None else found[0].accuracy,
        after={name: share for one in reversed(found) for name, share in one.after.items()},
        before=found[-1].before,
    )


def _on_images(
    on: MeasuredOn,
    images: ImageSet,
    classes: tuple[Label, ...],
    before: Method[Any] | None,
    after: Method[Any],
    num_old: int,
    reader: ViewReader,
) -> Measured:
    best = reader.apply(after.predict, images).argmax(dim=1)
    earlier: Shares = {}
    old = images.select((images.labels < num_old).nonzero()[:, 0])
    if before is not None and len(old):
        then = reader.apply(before.predict, old).argmax(dim=1)
        earlier = class_shares(old.labels, then, classes)
    return Measured(
        on=on,
        num_images=len(images),
        accuracy=100 * float((best == images.labels).double().mean()),
        after=class_shares(images.labels, best, classes),
        before=earlier,
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
    )
