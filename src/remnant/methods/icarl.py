"""iCaRL: sigmoid outputs held by a teacher, herded exemplars, and the nearest of their means.

[icarl] Rebuffi et al., CVPR 2017. PyCIL's variant has a softmax in place of the sigmoids.

Departs from [icarl]: outputs appear with their classes. The paper has one for every class of the
stream from the start and trains those of classes to come towards 0.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn
from torch.nn import functional as F

from remnant.errors import InputError
from remnant.images import Task
from remnant.losses import sigmoid_losses
from remnant.memory.keeps import Keeps
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.distillation import DistillationConfig, distill
from remnant.methods.nearest_mean import NearestMean, fill_from_memory, unused_head
from remnant.methods.teacher import Frozen, make_teacher
from remnant.phases import Batch, Reader, Terms


class ICaRLConfig(MethodConfig):
    name: Literal["icarl"] = "icarl"
    backbone: BackboneConfig = BackboneConfig(has_last_relu=False)  # [icarl] on CIFAR-100
    loss: Literal["sigmoid", "softmax"] = "sigmoid"  # [icarl], PyCIL
    # What the sigmoid loss is a mean over, beside the images. "stream": all classes to be seen, as
    # the learning rate of [icarl], 2.0 for 100 outputs, assumes; "seen": those seen so far, where
    # that rate would be 2.0 x seen / 100 and the number of classes need not be known
    average_over: Literal["seen", "stream"] = "seen"
    distillation: DistillationConfig = DistillationConfig()  # of "softmax" alone; PyCIL
    # "scores": the largest output, the "hybrid1" of [icarl]
    prediction: Literal["nearest-mean", "scores"] = "nearest-mean"
    mirror_exemplars: bool = True  # class means include mirror images [icarl]


class ICaRL(Method[ICaRLConfig]):
    Config = ICaRLConfig
    corrects_prior: ClassVar[bool] = True

    def __init__(self, config: ICaRLConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        if config.corrects_prior and config.loss == "sigmoid":
            raise InputError(
                "corrects_prior is about a cross-entropy over all classes. Set "
                "method.loss=softmax, or leave corrects_prior out."
            )
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)
        self.nearest_mean = NearestMean(self.classifier.width)
        self.num_averaged = sum(context.task_sizes) if config.average_over == "stream" else None
        self.teacher: Frozen[nn.Sequential] | None = None

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.teacher = make_teacher(self.backbone, self.classifier) if task.index > 0 else None
        super().begin_task(task, reader)

    def loss(self, batch: Batch) -> Terms:
        scores = self.classifier(self.features(batch.views))  # [B, K]
        old = None if self.teacher is None else self.teacher(batch.views)  # [B, K_old]
        if self.config.loss == "sigmoid":
            classify, soft = sigmoid_losses(scores, batch.labels, old, self.num_averaged)
            return {"classify": classify} | ({} if old is None else {"distill": soft})
        terms = {"classify": F.cross_entropy(batch.corrected(scores), batch.labels)}
        if old is not None:
            terms["distill"] = distill(self.config.distillation, scores, old)
        return terms

    def predict(self, views: Tensor) -> Tensor:
        is_by_means = self.config.prediction == "nearest-mean"
        head = self.nearest_mean if is_by_means else self.classifier
        return head(self.features(views))

    def end_task(self, task: Task, reader: Reader) -> None:
        super().end_task(task, reader)
        is_mirrored = self.config.mirror_exemplars
        fill_from_memory(self.nearest_mean, self, reader, is_mirrored=is_mirrored)

    def kept(self) -> list[Keeps]:
        unused = unused_head(self.config.prediction, self.classifier, self.nearest_mean)
        return [*super().kept(), unused]

    def grow(self, task: Task) -> None:
        super().grow(task)
        self.nearest_mean.grow(task.num_new_classes)
