"""What methods and the trainer hand to one another: schedules, batches, players and phases.

A *view* is float, channels first, normalised.

Axes: B images of a batch, C channels, H height, W width, GH x GW patches of an image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self, runtime_checkable

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from remnant.errors import InputError
from remnant.images import Images, ImageSet, Shape
from remnant.settings import Settings

Beta = Annotated[float, Field(ge=0, lt=1)]


class OptimizerConfig(Settings):
    """An optimiser and how its learning rate moves over a phase."""

    name: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float = Field(gt=0, le=1e6)  # learning rate at its highest
    momentum: float = Field(default=0.9, ge=0, lt=1)  # sgd only
    nesterov: bool = False  # sgd only: look ahead by the momentum; needs one above 0
    betas: tuple[Beta, Beta] = (0.9, 0.999)  # adam and adamw only
    weight_decay: float = Field(default=0.0, ge=0)  # decoupled for adamw, else added to gradients
    decay_norms_and_biases: bool = True  # False: weight decay is for matrices and filters alone
    # Of the learning rate, after warm-up.
    schedule: Literal["constant", "cosine", "steps"] = "constant"
    milestones: tuple[float, ...] = ()  # epochs at which "steps" multiplies by gamma
    gamma: float = Field(default=0.1, gt=0, le=1)  # of "steps"
    warmup_epochs: float = Field(default=0.0, ge=0)  # linear from warmup_lr to lr
    warmup_lr: float = Field(default=0.0, ge=0)  # where warm-up starts
    min_lr: float = Field(default=0.0, ge=0)  # where "cosine" ends
    clip_norm: float | None = Field(default=None, gt=0)  # of all gradients together
    clip_value: float | None = Field(default=None, gt=0)  # of each gradient entry

    @model_validator(mode="after")
    def _check_nesterov(self) -> Self:
        if self.name == "sgd" and self.nesterov and self.momentum == 0:
            raise InputError("nesterov needs a momentum above 0. Set one, or nesterov=false.")
        return self

    def stretched(self, factor: float) -> OptimizerConfig:
        """Over so many times the epochs, with warm-up and milestones at the same fractions."""
        return self.model_copy(
            update={
                "warmup_epochs": self.warmup_epochs * factor,
                "milestones": tuple(epoch * factor for epoch in self.milestones),
            }
        )


Share = Annotated[float, Field(gt=0, lt=1)] | Literal["balanced"]


class Schedule(Settings):
    """How long a phase lasts, how its batches are drawn, and what optimises it."""

    epochs: int = Field(ge=1)  # see `steps_from`
    batch_size: int = Field(ge=1)  # over all processes
    optimizer: OptimizerConfig
    # "all": an epoch passes over new data and replay; "new": it has as many steps as the new
    # data alone would need, so that methods and codecs compare at equal compute.
    steps_from: Literal["all", "new"] = "all"
    # "union": new data and replay shuffled together; "balanced": every class equally often;
    # "share": new images make up `new_share` of every batch, old classes equally often the rest.
    sampling: Literal["union", "balanced", "share"] = "union"
    # At the first and at the last step, linear between; "balanced": the share of new classes.
    new_share: tuple[Share, Share] = (0.5, 0.5)
    # Train on scores plus the log of each class's share of the draws (balanced softmax), so that
    # what is drawn more often is not predicted more often.
    corrects_prior: bool = False
    # Each image drawn is shown so many times in a row, augmented anew: repeated augmentation.
    # Epochs stay as long, so that each shows so many times fewer images.
    views_per_image: int = Field(default=1, ge=1)

    def stretched(self, epochs: int) -> Schedule:
        """Over other epochs, with warm-up and milestones at the same fractions of them."""
        optimizer = self.optimizer.stretched(epochs / self.epochs)
        return self.model_copy(update={"epochs": epochs, "optimizer": optimizer})


@dataclass(frozen=True)
class Batch:
    """What a loss sees. Rows are this process's share of the global batch."""

    views: Tensor  # float [B, C, H, W], normalised
    labels: Tensor  # int64 [B]
    is_replay: Tensor  # bool [B]
    is_known: Tensor | None  # bool [B, GH, GW]; None: all patches known
    ids: Tensor  # int64 [B]; of the data set for new images, positions in the replay set for replay
    step: int  # from 0 within the phase
    num_steps: int  # of the phase
    draw: Callable[..., Tensor]  # draw(name, *shape): uniform [B, *shape], a function of seed and
    # step alone: one process and many see the same numbers for the same image

    # float [B, C, H, W]: new images as their twins, under the same crop and flip, and replayed ones
    # as they are; see `Phase.shows_pairs`.
    twin_views: Tensor | None = None
    # float [K]: the log of each class's share of the draws; None: scores need no correction.
    log_prior: Tensor | None = None

    def corrected(self, scores: Tensor) -> Tensor:
        """Scores [B, K] as cross-entropy is to see them; see `Schedule.corrects_prior`."""
        return scores if self.log_prior is None else scores + self.log_prior[: scores.shape[1]]

    def take(self, rows: Tensor) -> Batch:
        """The rows int64 [b], with their draws."""
        return replace(
            self,
            views=self.views[rows],
            labels=self.labels[rows],
            is_replay=self.is_replay[rows],
            is_known=None if self.is_known is None else self.is_known[rows],
            ids=self.ids[rows.cpu()],
            draw=lambda name, *shape: self.draw(name, *shape)[rows],
            twin_views=None if self.twin_views is None else self.twin_views[rows],
        )

    @property
    def progress(self) -> float:
        """0 at the first step of the phase, towards 1 at the last."""
        return self.step / self.num_steps


Terms = dict[str, Tensor]  # named scalar losses, already weighted; the trainer minimises their sum


@dataclass(frozen=True)
class Player:
    """Parameters that move together: by one optimiser, on one loss.

    Most phases have one. Adversaries are two with `every` apart; a meta step is a `loss` that
    differentiates inside; projection is `on_gradients`, called between backward and step.
    """

    parameters: Sequence[nn.Parameter]
    loss: Callable[[Batch], Terms]
    optimizer: OptimizerConfig
    every: int = 1  # moves at steps that this divides
    on_gradients: Callable[[], None] | None = None
    after_step: Callable[[], None] | None = None


@dataclass(frozen=True)
class Phase:
    """One stretch of optimisation, stated as data: the trainer does the rest."""

    name: str  # unique within its task
    data: ImageSet
    schedule: Schedule
    players: tuple[Player, ...]
    replay: ImageSet | None = None
    # How often an image known in part is shown through its known patches alone; otherwise it
    # counts as whole (a completed exemplar: whole, but only some of it is certain).
    partial_view_ratio: float = 1.0
    # Presentation symmetry: as often as exemplars are shown in part, new images too are cropped by
    # whole patches, since any other crop would tear those of an exemplar.
    aligns_new: bool = False
    # What the memory would give back for each image of `data` (coded, completed, known in part):
    # shown in place of the images as exemplars are, but whole where new images are aligned. None:
    # the images themselves.
    twins: ImageSet | None = None
    twin_ratio: float = 1.0  # how often
    # Twins are shown beside the images instead: a batch has `twin_views`.
    shows_pairs: bool = False
    # (step, num_steps) -> whether every image is treated as whole at this step.
    is_whole_step: Callable[[int, int], bool] | None = None
    # The part of the schedule that this phase covers, where one is cut in several: first epoch and
    # the one after the last. Learning rates go on as if it were whole.
    epochs: tuple[int, int] | None = None

    @property
    def parameters(self) -> list[nn.Parameter]:
        return [parameter for player in self.players for parameter in player.parameters]

    def stretched(self, epochs: int) -> Phase:
        """Over other epochs; see `Schedule.stretched`."""
        factor = epochs / self.schedule.epochs
        players = [
            replace(player, optimizer=player.optimizer.stretched(factor)) for player in self.players
        ]
        schedule = self.schedule.stretched(epochs)
        return replace(self, schedule=schedule, players=tuple(players))


class Reader(Protocol):
    """Read-only access to images for methods: no gradient, no augmentation, same on every rank."""

    seed: int
    mean: tuple[float, ...]  # of the data set, per channel, in [0, 1]
    std: tuple[float, ...]

    def generator(self, *purpose: str | int) -> torch.Generator:
        """A generator for one purpose, the same at every run with this seed."""
        ...

    def images(self, images: ImageSet) -> Iterator[Tensor]:
        """Test framing, in order, batch by batch, as uint8 [b, H, W, C]."""
        ...

    def apply(
        self, function: Callable[[Tensor], Tensor], images: ImageSet, *, mirrored: bool = False
    ) -> Tensor:
        """`function` of the normalised views of all images, in order, on the CPU: [N, ...].

        Runs in evaluation mode without gradient, shared among processes. `mirrored` flips the
        views left to right.
        """
        ...

    def hold(self, batches: Iterable[Tensor], labels: Tensor, shape: Shape) -> Images:
        """Images that come in batches, uint8 [b, *shape], to be read while a task lasts.

        Few are held in memory, many in a scratch file: what a method computes from all exemplars
        must not grow with the classes. `labels` [N] are those of the images.
        """
        ...

    def views(self, images: Tensor) -> Tensor:
        """uint8 [n, H, W, C] -> normalised float [n, C, H, W] on the training device."""
        ...

    def to_images(self, views: Tensor) -> Tensor:
        """The inverse of `views`, rounded and clipped: uint8 [n, H, W, C] on the CPU."""
        ...


@dataclass(frozen=True)
class StepReport:
    """One optimiser step, for progress bars and event logs."""

    task: int
    phase: str
    epoch: int  # from 0
    num_epochs: int
    step: int  # from 0 within the phase
    num_steps: int
    terms: dict[str, float]
    lr: float
    images: int
    images_per_second: float
    is_epoch_end: bool
    flops: int = 0  # forward and backward, in all processes
    new_images: int = 0  # of the images, those of the task's classes that a network saw
    accuracy: float | None = None  # percent of images held back, where somebody has measured it

    @property
    def loss(self) -> float:
        return sum(self.terms.values())


class PhaseDoneError(Exception):
    """Raised by a watcher: there is nothing more to learn, so that the phase ends here."""


class Pace(Protocol):
    """Decides after every step how many epochs the phase shall have, done ones included."""

    def epochs(self, report: StepReport) -> int: ...


class Watcher(Protocol):
    """Receives every step; raising an error stops the training."""

    def on_step(self, report: StepReport) -> None: ...


@runtime_checkable
class ReadingWatcher(Protocol):
    """A watcher that is also told how far a method that trains nothing has read its images."""

    def on_images(self, num_read: int, num_images: int) -> None: ...


@runtime_checkable
class NotedWatcher(Protocol):
    """A watcher that is also told sentences for the user about the images, before training."""

    def on_notes(self, notes: Sequence[str]) -> None: ...


class RunWatcher:
    """A parent for watchers of whole runs, such as experiment trackers: every verb does nothing.

    A result is what result.json says, as far as the run has come; accuracies are percent. Only the
    first process of a run tells its watchers.
    """

    def on_run_begin(self, folder: Path, config: dict[str, Any], images_done: int) -> None:
        """Before the first step; a resumed run says how many images it was trained on before."""

    def on_step(self, report: StepReport) -> None:
        """After every step of the optimiser."""

    def on_task_end(self, task: int, result: dict[str, Any]) -> None:
        """After a task was learned and evaluated; tasks count from 0."""

    def on_run_end(self, result: dict[str, Any]) -> None:
        """Once the run is complete and its folder written."""

    def close(self) -> None:
        """Last of all, also when the run was stopped or failed."""
