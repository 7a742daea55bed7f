"""The interface that every class-incremental method implements, with defaults for most verbs."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from remnant.images import ImageSet, Task
from remnant.memory import Candidate, Memory, MemoryConfig, select
from remnant.models.classifier import LinearClassifier
from remnant.phases import Batch, Phase, Player, Reader, Schedule, Terms
from remnant.randomness import derive_seed
from remnant.registry import Registry
from remnant.settings import Settings


class MethodConfig(Settings):
    """What every method can be told; each method adds its own."""

    name: Any  # each method narrows it to its own name
    first: Schedule  # of the first task
    later: Schedule | None = None  # of the tasks after it; None: as the first

    def schedule(self, task: Task) -> Schedule:
        return self.first if task.index == 0 or self.later is None else self.later

    @classmethod
    def chosen_by(cls, value: Any) -> type[Settings]:
        name = value.get("name") if isinstance(value, dict) else None
        return METHODS[name].Config if isinstance(name, str) and name in METHODS else cls


@dataclass(frozen=True)
class World:
    """What a method may know of its surroundings when it is built."""

    image_shape: tuple[int, int, int]  # height, width, channels
    task_sizes: tuple[int, ...]
    memory: Memory | None


ConfigT = TypeVar("ConfigT", bound=MethodConfig)


class Method(nn.Module, Generic[ConfigT]):
    """A learner of one task after the other: six verbs, all but `loss` with a default.

    The default network is `self.backbone` (views -> features) under `self.classifier` (features ->
    scores, with `grow`). Tensors that must survive from one task to the next are parameters or
    buffers; a teacher is made anew by `begin_task`, which is repeated on resume, and so is the
    code between two phases: both must give the same result for the same weights and memory.
    """

    uses_memory: ClassVar[bool] = True
    takes_known_classes: ClassVar[bool] = False  # a task may bring more images of old classes
    has_one_row_per_class: ClassVar[bool] = False  # in a linear classifier, and nothing else
    Config: ClassVar[type[MethodConfig]]
    backbone: nn.Module
    classifier: LinearClassifier

    def __init__(self, config: ConfigT, world: World) -> None:
        super().__init__()
        self.config = config
        self.memory = world.memory

    # ------------------------------------------------------------------------------- the six verbs

    def begin_task(self, task: Task, reader: Reader) -> None:
        """Get ready: grow, snapshot, freeze, imprint."""
        self.grow(task)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        """What to optimise, in order; code between two yields runs between two phases."""
        yield self.phase("train", task.train, self.config.schedule(task), replay=self.replay())

    @abstractmethod
    def loss(self, batch: Batch) -> Terms:
        """Named terms, already weighted; the trainer minimises their sum."""

    def predict(self, views: Tensor) -> Tensor:
        """Scores [B, K] over the classes seen so far."""
        return self.classifier(self.features(views))

    def features(self, views: Tensor) -> Tensor:
        """One vector [B, D] per image, for selection, nearest means and density."""
        return self.backbone(views)

    def end_task(self, task: Task, reader: Reader) -> None:
        """Take leave of the task's data: refill the memory."""
        self.remember(task, reader)

    # ----------------------------------------------------------------------- what verbs are made of

    def grow(self, task: Task) -> None:
        """Add the parameters that `task` brings: shapes only, no data.

        A checkpoint is loaded into a network that was built and grown once per earlier task.
        """
        if task.num_new_classes > 0:
            self.classifier.grow(task.num_new_classes)

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
            name="all",
            parameters=list(moved),
            loss=self.loss if loss is None else loss,
            optimizer=schedule.optimizer,
            on_gradients=on_gradients,
        )
        return Phase(name, data, schedule, (player,), replay)

    def replay(self) -> ImageSet | None:
        """The memory, decoded, with hidden pixels in the mean colour; None when it is empty."""
        return None if self.memory is None else self.memory.images()

    @property
    def working_bytes(self) -> int:
        """What replaying the memory takes beside it during a task; not in the budget."""
        return 0

    def complete_memory(self, reader: Reader) -> ImageSet | None:
        """The memory as it is replayed: exemplars known in part made whole, where a method can."""
        return self.replay()

    def redraw(self, images: Tensor, reader: Reader) -> dict[str, Tensor] | None:
        """Pictures of how images uint8 [n, H, W, C] look to a network that draws, else None.

        "visible", "both", "main", "detail": what is seen of an image, and its reconstruction by
        both branches and by each alone. "coarse", "fine", "difference", "high": one example of
        what the detail branch learns. All uint8 [n, H, W, C]; a method may leave some out.
        """
        return None

    def remember(self, task: Task, reader: Reader) -> None:
        """Fill the memory with the new classes; the old ones give way as far as they must.

        Old classes of which the task brought more images keep some of those too.
        """
        if self.memory is None:
            return
        self.memory.expect(task.num_seen_classes)
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
        ranks = self.rank_exemplars(images, label, count, reader)
        for batch in reader.images(images.select(ranks)):
            yield from map(Candidate, batch.numpy())

    def rank_exemplars(self, images: ImageSet, label: int, count: int, reader: Reader) -> Tensor:
        """Positions of the `count` images of one class worth keeping, best first."""
        assert self.memory is not None, "only a method with a memory ranks exemplars"
        how = self.memory.config.selection
        features = torch.empty(len(images), 0)
        if how == "herding":
            features = reader.apply(self.features, images)
        return select(how, features, count, reader.generator("selection", label))


# ---------------------------------------------------------------------------- the methods, by name


def _name_of(method: type[Method[Any]]) -> str:
    return method.Config.model_fields["name"].default


METHODS: Registry[type[Method[Any]]] = Registry("method", "remnant.methods", name_of=_name_of)


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
    return METHODS[plan.method.name](plan.method, World(image_shape, tuple(task_sizes), memory))


# ---------------------------------------------------------------------------------------- teachers

NetworkT = TypeVar("NetworkT", bound=nn.Module)


class Frozen(Generic[NetworkT]):
    """A network that no optimiser, checkpoint or mode switch sees: a teacher."""

    def __init__(self, network: NetworkT) -> None:
        self.network: NetworkT = copy.deepcopy(network).eval().requires_grad_(False)

    @torch.no_grad()
    def __call__(self, *inputs: Tensor) -> Tensor:
        return self.network(*inputs)


def frozen_copy(network: NetworkT) -> Frozen[NetworkT]:
    """The network as it is now, for ever."""
    return Frozen(network)
