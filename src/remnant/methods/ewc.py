"""Elastic weight consolidation: no exemplars; weights that mattered are held where they were.

[ewc] Kirkpatrick et al., PNAS 2017. The class-incremental form is PyCIL's; FACIL and mammoth
estimate the Fisher information differently, and the penalty's weight depends on the estimate.

After training, a phase of one epoch lets the trainer compute gradients as always, adds up their
squares and removes the gradients before the step, so that no weight moves.

Departs from [ewc]: a third number per parameter, the sum of squares, is always there and counts as
carried, though it is zero between tasks.
Departs from PyCIL: running statistics of the network stay too, so that estimating changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.images import Task
from remnant.memory.keeps import Keeps, KeptTensors
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.local_softmax import require_rivals
from remnant.phases import Batch, OptimizerConfig, Phase, Reader, Schedule, Terms
from remnant.settings import Settings


class FisherConfig(Settings):
    """How the diagonal of the Fisher information is estimated; defaults are PyCIL's."""

    # Whose likelihood is derived: "true" labels; "predicted" ones (FACIL); "sampled" from the
    # scores, as the definition says; "weighted": true ones, each image's squared gradient times
    # its predicted probability (mammoth, with batch_size 1)
    labels: Literal["true", "predicted", "sampled", "weighted"] = "true"
    # The gradient of a batch's mean loss is squared, about batch_size times less than the mean
    # square of its images' gradients; 1 gives the latter, slowly.
    batch_size: int = Field(default=128, ge=1)
    # The network normalises by the batch, as in training (PyCIL, FACIL), or by what it has learned
    has_batch_statistics: bool = True
    covers: Literal["all", "backbone"] = "all"  # "backbone": FACIL
    max_entry: float | None = Field(default=1e-4, gt=0)  # None: FACIL, mammoth
    # F <- a F + (1 - a) F_new, or a F + F_new (mammoth); a: share of the old classes if None,
    # 0.5 in FACIL, gamma in mammoth
    merge: Literal["mean", "sum"] = "mean"
    old_share: float | None = Field(default=None, ge=0, le=1)


class EWCConfig(MethodConfig):
    name: Literal["ewc"] = "ewc"
    backbone: BackboneConfig = BackboneConfig()
    softmax_over: Literal["new", "seen"] = "new"  # PyCIL, FACIL; "seen" pushes old scores down
    # lambda: PyCIL. FACIL: 5,000. mammoth's penalty has no 1/2: give twice its lambda here.
    penalty_weight: float = Field(default=1000.0, ge=0)
    fisher: FisherConfig = FisherConfig()

    def check_task(self, index: int, num_new_classes: int) -> None:
        if self.softmax_over == "new":
            require_rivals(index, num_new_classes)


class EWC(Method[EWCConfig]):
    Config = EWCConfig
    uses_memory: ClassVar[bool] = False

    def __init__(self, config: EWCConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)
        self.fisher = TensorPerParameter()  # F, merged over tasks; 0 for new rows: they are free
        self.anchor = TensorPerParameter()  # theta*, the weights after the task before
        self.squares = TensorPerParameter()  # of gradients, while F is estimated
        self.num_squares: Tensor
        self.register_buffer("num_squares", torch.zeros((), dtype=torch.int64))
        self.num_old_classes = 0

    # -------------------------------------------------------------------------------- the six verbs

    def begin_task(self, task: Task, reader: Reader) -> None:
        super().begin_task(task, reader)
        self.num_old_classes = task.num_old_classes

    def grow(self, task: Task) -> None:
        super().grow(task)
        for tensors in (self.fisher, self.anchor, self.squares):
            tensors.match(self.covered())

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        yield from super().phases(task, reader)
        optimizer = OptimizerConfig(name="sgd", lr=1.0, momentum=0.0)  # finds nothing to move
        size = self.config.fisher.batch_size
        yield self.phase(
            "fisher",
            task.train,
            Schedule(epochs=1, batch_size=size, optimizer=optimizer),
            parameters=list(self.covered().values()),
            loss=self.likelihood,
            on_gradients=self.add_squares,
        )

    def loss(self, batch: Batch) -> Terms:
        scores = self.predict(batch.views)  # [B, K]
        first = self.num_old_classes if self.config.softmax_over == "new" else 0
        terms = {"classify": F.cross_entropy(scores[:, first:], batch.labels - first)}
        if self.num_old_classes > 0:
            terms["consolidate"] = self.config.penalty_weight * self.penalty()
        return terms

    def end_task(self, task: Task, reader: Reader) -> None:
        """Merge the estimate into F and anchor the weights where they are."""
        config, share = self.config.fisher, self._old_share(task)
        new_share = 1 - share if config.merge == "mean" else 1.0
        for name, parameter in self.covered().items():
            old, new = self.fisher[name], self.squares[name] / self.num_squares
            new = new.clamp(max=config.max_entry) if config.max_entry is not None else new
            merged = share * old + new_share * new
            if name.startswith("classifier."):
                merged[task.num_old_classes :] = new[task.num_old_classes :]  # no old estimate
            old.copy_(merged)
            self.anchor[name].copy_(parameter.detach())
            self.squares[name].zero_()
        self.num_squares.zero_()

    def kept(self) -> list[Keeps]:
        """Three numbers per parameter; `squares` are needed within a task, yet always there."""
        squares = self.squares.state_dict(keep_vars=True) | {"count": self.num_squares}
        return [
            *super().kept(),
            KeptTensors.of("fisher", self.fisher),
            KeptTensors.of("anchor", self.anchor),
            KeptTensors("squares", squares),
        ]

    # ------------------------------------------------------------------------- penalty and estimate

    def covered(self) -> dict[str, nn.Parameter]:
        """The parameters that are held, by name."""
        everything = dict(self.named_parameters())
        if self.config.fisher.covers == "all":
            return everything
        return {name: one for name, one in everything.items() if name.startswith("backbone.")}

    def penalty(self) -> Tensor:
        """[ewc] sum of F/2 (theta - theta*)^2 over the weights that old tasks knew."""
        sums = [
            (self.fisher[name] * (parameter - self.anchor[name]).square()).sum() / 2
            for name, parameter in self.covered().items()
        ]
        return torch.stack(sums).sum()

    def likelihood(self, batch: Batch) -> Terms:
        """The loss whose gradients are squared: over all classes seen, as in PyCIL and FACIL."""
        config = self.config.fisher
        self.backbone.train(config.has_batch_statistics)
        with still_statistics(self.backbone):
            scores = self.predict(batch.views)  # [B, K]
        labels, probabilities = batch.labels, scores.detach().float().softmax(dim=1)
        if config.labels == "predicted":
            labels = scores.argmax(dim=1)
        elif config.labels == "sampled":
            labels = (probabilities.cumsum(dim=1) < batch.draw("label", 1)).sum(dim=1)
            labels = labels.clamp(max=scores.shape[1] - 1)  # the sum may round to less than 1
        losses = F.cross_entropy(scores, labels, reduction="none")  # [B]
        if config.labels == "weighted":
            losses = losses * probabilities.gather(1, labels[:, None])[:, 0].sqrt()
        return {"estimate": losses.mean()}

    def add_squares(self) -> None:
        """Add up the squared gradients and remove them."""
        for name, parameter in self.covered().items():
            if parameter.grad is not None:
                self.squares[name].add_(parameter.grad.square())
                parameter.grad = None
        self.num_squares += 1

    def _old_share(self, task: Task) -> float:
        if task.index == 0:
            return 0.0
        share = self.config.fisher.old_share
        return task.num_old_classes / task.num_seen_classes if share is None else share


class TensorPerParameter(nn.Module):
    """A buffer beside each parameter of a network, of its shape, zero where the network is new."""

    def match(self, parameters: dict[str, nn.Parameter]) -> None:
        """Make room for parameters that are new or have grown by rows."""
        for name, parameter in parameters.items():
            grown = torch.zeros_like(parameter, requires_grad=False)
            if _key(name) in self._buffers:
                old = self[name]
                grown[: len(old)] = old
            self.register_buffer(_key(name), grown)

    def __getitem__(self, name: str) -> Tensor:
        tensor = self._buffers[_key(name)]
        assert tensor is not None, "`match` gives every parameter a tensor"
        return tensor


def _key(name: str) -> str:
    return name.replace(".", "/")  # torch allows no dots in names


@contextmanager
def still_statistics(network: nn.Module) -> Iterator[None]:
    """Within the block, batch normalisation learns no statistics, even in training mode."""
    norms = [one for one in network.modules() if isinstance(one, nn.modules.batchnorm._BatchNorm)]
    momenta = [one.momentum for one in norms]
    for one in norms:
        one.momentum = 0.0
    try:
        yield
    finally:
        for one, momentum in zip(norms, momenta, strict=True):
            one.momentum = momentum
