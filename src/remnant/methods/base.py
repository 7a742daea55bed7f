"""The interface that every class-incremental method implements, with defaults for most verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from remnant.errors import InputError
from remnant.images import ImageSet, Task
from remnant.memory import Candidate, Memory, MemoryConfig, select
from remnant.memory.keeps import Keeps, KeptTensors
from remnant.methods.coded_twins import as_shown, with_coded_views
from remnant.models.classifier import LinearClassifier
from remnant.phases import Batch, Phase, Player, Reader, Schedule, Terms
from remnant.randomness import derive_seed
from remnant.registry import Registry
from remnant.settings import Settings


class MethodConfig(Settings):
    """The settings of every method; each method adds its own."""

    name: Any  # each method narrows it to its own name
    first: Schedule  # of the first task
    later: Schedule | None = None  # of the tasks after it; None: as the first
    # How often a new image is shown as the memory would give it back, coded: see probe.md.
    codec_view_ratio: float = Field(default=0.0, ge=0, le=1)

    def schedule(self, task: Task) -> Schedule:
        return self.first if task.index == 0 or self.later is None else self.later

    def schedule_with(self, task: Task, num_exemplars: float) -> Schedule:
        """The schedule of a task that is learned beside so many exemplars of old classes."""
        return self.schedule(task)

    def check_task(self, index: int, num_new_classes: int) -> None:
        """Refuse a task, counted from 0, that the method cannot learn; known before any training.

        Raises:
            InputError: The message says what to change.
        """

    @property
    def corrects_prior(self) -> bool:
        """Whether one of its schedules asks for that."""
        return any(one is not None and one.corrects_prior for one in (self.first, self.later))

    @classmethod
    def chosen_by(cls, value: Any) -> type[Settings]:
        name = value.get("name") if isinstance(value, dict) else None
        return METHODS[name].Config if isinstance(name, str) and name in METHODS else cls


@dataclass(frozen=True)
class MethodContext:
    """What a method may know of the run when it is built."""

    image_shape: tuple[int, int, int]  # height, width, channels
    task_sizes: tuple[int, ...]  # new classes of each task
    memory: Memory | None

    @property
    def num_channels(self) -> int:
        return self.image_shape[2]


ConfigT = TypeVar("ConfigT", bound=MethodConfig)
Describe = Callable[[Tensor, int, Reader], Iterator[Candidate]]


class Method(nn.Module, Generic[ConfigT]):
    """A learner of one task after the other: six verbs, all but `loss` with a default.

    The default network is `self.backbone` (views -> features) under `self.classifier` (features ->
    scores, with `grow`). Tensors that must outlive a task are parameters or buffers. `begin_task`
    and the code between two phases are repeated on resume: both must give the same result for the
    same weights and memory.
    """

    uses_memory: ClassVar[bool] = True
    trains: ClassVar[bool] = True  # has phases; False: `end_task` does all the learning
    corrects_prior: ClassVar[bool] = False  # its loss goes through `Batch.corrected`
    learns_once: ClassVar[bool] = False  # all classes in one task: an upper bound
    takes_known_classes: ClassVar[bool] = False  # a task may bring more images of old classes
    has_one_row_per_class: ClassVar[bool] = False  # so that `forget_class` can remove one
    forgets_exactly: ClassVar[bool] = False  # what is left is as if the class had never been seen
    cuts_network: ClassVar[bool] = False  # after training: how much, no config tells
    needs_codec: ClassVar[str | None] = None  # the only one that it works with; None: any
    has_own_views: ClassVar[bool] = False  # it decides how often new images are shown coded
    may_be_infinite: ClassVar[tuple[str, ...]] = ()  # names in its state; all others are finite
    Config: ClassVar[type[MethodConfig]]
    backbone: nn.Module
    classifier: LinearClassifier

    def __init__(self, config: ConfigT, context: MethodContext) -> None:
        super().__init__()
        if config.corrects_prior and not self.corrects_prior:
            raise InputError(
                f"{config.name} does not correct its loss: that takes a cross-entropy over all "
                "classes. Leave corrects_prior out."
            )
        replays = self.uses_memory and self.trains
        if config.codec_view_ratio > 0 and (self.has_own_views or not replays):
            raise InputError(
                f"codec_view_ratio shows new images as exemplars are replayed; {config.name} "
                f"{'does so in its own way' if replays else 'replays none'}. Leave it out."
            )
        self.config = config
        self.memory = context.memory
        # What is told of images that are offered to the memory; a method around this one may tell
        # more.
        self.describe: Describe = as_candidates
        self.herds_coded = False  # herding sees images as the codec gives them back
        # A process may lack the rows of some pass: SyncBatchNorm would wait for it for ever.
        self.may_skip_passes = False

    # ------------------------------------------------------------------------------- the six verbs

    def begin_task(self, task: Task, reader: Reader) -> None:
        """Get ready: grow, copy a teacher, freeze, imprint."""
        self.grow(task)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        """What to optimise, in order; code between two yields runs between two phases."""
        if self.trains:
            yield self.phase("train", task.train, self.config.schedule(task), replay=self.replay())

    def loss(self, batch: Batch) -> Terms:
        """Named terms, already weighted, whose sum the trainer minimises."""
        raise NotImplementedError(f"{type(self).__name__} trains, so it must define loss")

    def predict(self, views: Tensor) -> Tensor:
        """Scores [B, K] over the classes seen so far."""
        return self.classifier(self.features(views))

    def features(self, views: Tensor) -> Tensor:
        """One vector [B, D] per image, for selection, nearest means and density."""
        return self.backbone(views)

    def end_task(self, task: Task, reader: Reader) -> None:
        """Finish the task while its data are there: refill the memory."""
        self.remember(task, reader)

    def held_out(self) -> tuple[Tensor, Tensor] | None:
        """Labels [H] and scores [H, K] of images that the method held out by itself, if it does.

        The scores are those of a classifier that was not fitted to these images.
        """
        return None

    # ------------------------------------------------------------------- what is carried to a task

    def kept(self) -> list[Keeps]:
        """What is carried from task to task beside the network; extend the list of the parent.

        The *network* is every parameter and buffer that `predict` needs. Kept beside it is
        whatever else outlives a task: the memory; tensors that only later losses use, such as
        Fisher information, old weights or stored scores; a network that predicts nothing, such as
        a generator, or a second copy of one that does. A teacher made by `begin_task` from the
        network is not kept, since nothing is stored for it; see `remnant.methods.teacher`.
        """
        return [] if self.memory is None else [self.memory]

    def grow(self, task: Task) -> None:
        """Add the parameters that `task` brings: shapes only, no data.

        A checkpoint is loaded into a network that was built and grown once per earlier task.
        """
        if task.num_new_classes > 0:
            self.classifier.grow(task.num_new_classes)

    def forget_class(self, label: int) -> None:
        """Remove the row of one class; labels above it fall by one. The memory is another's work.

        Only asked of a method that `has_one_row_per_class`.
        """
        for part in self.modules():
            if isinstance(part, LinearClassifier):
                part.cut(label)

    # ----------------------------------------------------------------------- what verbs are made of

    def shown_phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        """Its phases, with new images shown like exemplars as often as the settings say."""
        return with_coded_views(
            self.phases(task, reader), self.memory, self.config.codec_view_ratio, reader
        )

    def phase(
        self,
        name: str,
        data: ImageSet,
        schedule: Schedule,
        *,
        replay: ImageSet | None = None,
        parameters: Iterator[nn.Parameter] | list[nn.Parameter] | None = None,
        loss: Callable[[Batch], Terms] | None = None,
        on_gradients: Callable[[], None] | None = None,
    ) -> Phase:
        """A phase with one player, by default all parameters on `self.loss`."""
        moved = self.parameters() if parameters is None else parameters
        player = Player(
            parameters=list(moved),
            loss=self.loss if loss is None else loss,
            optimizer=schedule.optimizer,
            on_gradients=on_gradients,
        )
        return Phase(name, data, schedule, (player,), replay)

    def replay(self) -> ImageSet | None:
        """The memory, decoded, with hidden pixels in the mean colour; None when it is empty."""
        return None if self.memory is None else self.memory.images()

    def remember(self, task: Task, reader: Reader) -> None:
        """Fill the memory with the new classes; the old ones give way as far as they must.

        Old classes of which the task brought more images keep some of those too.
        """
        if self.memory is None:
            return
        self.memory.expect(task.num_seen_classes, self.side_bytes(task.num_seen_classes))
        for label, name in zip(task.new_labels, task.class_names, strict=True):
            self.memory.add_class(label, name, self.candidates(task, label, reader))
        for label in task.known_labels:
            self.memory.extend_class(label, self.candidates(task, label, reader))

    def candidates(self, task: Task, label: int, reader: Reader) -> Iterator[Candidate]:
        """The images of one class worth keeping, best first.

        The memory takes from this generator until its share is full, so that ranking and reading
        run inside `Memory.add_class`, and images that do not fit are never read.
        """
        assert self.memory is not None, "only a method with a memory ranks exemplars"
        images, room = task.train.of_class(label), self.memory.room(label)
        count = len(images) if room is None else min(room, len(images))
        chosen = images.select(self.rank_exemplars(images, label, count, reader))
        sides = iter(self.side_data(chosen, reader))
        for batch in reader.images(chosen):
            for candidate in self.describe(batch, label, reader):
                yield replace(candidate, side=next(sides))

    @classmethod
    def side_bytes(cls, num_seen_classes: int) -> int:
        """Bytes that are stored beside each exemplar of a task, by the classes seen with it."""
        return 0

    def side_data(self, images: ImageSet, reader: Reader) -> list[bytes]:
        """What is stored beside each of these images, `side_bytes` each; by default nothing.

        The memory counts it, thins it with its exemplars and saves it; `Memory.sides` gives it
        back in the order of the replay set.
        """
        return [b""] * len(images)

    def rank_exemplars(self, images: ImageSet, label: int, count: int, reader: Reader) -> Tensor:
        """Positions of the `count` images of one class worth keeping, best first."""
        assert self.memory is not None, "only a method with a memory ranks exemplars"
        how = self.memory.config.selection
        features = torch.empty(len(images), 0)
        if how == "herding":
            seen = self._coded(images, label, reader) if self.herds_coded else images
            features = reader.apply(self.features, seen)
        return select(how, features, count, reader.generator("selection", label))

    def _coded(self, images: ImageSet, label: int, reader: Reader) -> ImageSet:
        """Images of one class as the memory would give them back."""
        assert self.memory is not None, "only a method with a memory ranks exemplars"
        offered = (
            candidate
            for batch in reader.images(images)
            for candidate in self.describe(batch, label, reader)
        )
        return as_shown(images, self.memory.present(offered))


def as_candidates(images: Tensor, label: int, reader: Reader) -> Iterator[Candidate]:
    """Images uint8 [n, H, W, C] of one class, of which nothing more is known."""
    return map(Candidate, images.numpy())


def kept_bytes(method: Method[Any]) -> dict[str, int]:
    """Bytes of everything that a method carries to the next task, by name: "network" and `kept`.

    Every tensor of the state counts once. Buffers that are not saved follow from the config, so
    they are not carried.
    """
    kept = method.kept()
    state = {id(tensor): tensor for tensor in method.state_dict(keep_vars=True).values()}
    for one in kept:
        if isinstance(one, KeptTensors):
            for name, tensor in one.tensors.items():
                known = state.pop(id(tensor), None)
                assert known is not None, f"{one.name}/{name} must be a buffer or parameter, once"
    total = {"network": sum(tensor.nbytes for tensor in state.values())}
    for one in kept:
        assert one.name not in total, f"two things are kept by the name {one.name!r}"
        total[one.name] = one.nbytes
    return total


# ---------------------------------------------------------------------------- the methods, by name


def _name_of(method: type[Method[Any]]) -> str:
    name = method.Config.model_fields["name"].default
    if not isinstance(name, str):
        raise InputError(
            f"{method.Config.__name__} must give its method a name; it gives none. Write "
            'name: Literal["..."] = "...".'
        )
    return name


def _check_kind(method: object) -> None:
    is_method = isinstance(method, type) and issubclass(method, Method)
    if not is_method or not issubclass(getattr(method, "Config", object), MethodConfig):
        raise InputError(
            "a method must be a subclass of remnant.methods.Method whose Config is a subclass of "
            f"MethodConfig; got {method!r:.80}."
        )


METHODS: Registry[type[Method[Any]]] = Registry(
    "method", "remnant.methods", name_of=_name_of, check=_check_kind
)


class MethodPlan(Protocol):
    """What decides how a method is built."""

    @property
    def seed(self) -> int: ...

    @property
    def memory(self) -> MemoryConfig | None: ...

    @property
    def method(self) -> MethodConfig: ...


def build_method(
    plan: MethodPlan, image_shape: tuple[int, int, int], task_sizes: Sequence[int]
) -> Method[Any]:
    """A method that has seen nothing; its first weights are a function of the seed."""
    memory = None
    if plan.memory is not None:
        seed = derive_seed(plan.seed, "memory")
        memory = Memory(plan.memory, image_shape, seed, num_classes=sum(task_sizes))
    torch.manual_seed(derive_seed(plan.seed, "weights"))
    context = MethodContext(image_shape, tuple(task_sizes), memory)
    return METHODS[plan.method.name](plan.method, context)
