"""iCaRL: sigmoid outputs held by a teacher, herded exemplars, and the nearest of their means.

[icarl] Rebuffi et al., CVPR 2017. PyCIL's variant has a softmax in place of the sigmoids.

Departs from [icarl]: outputs appear with their classes. The paper has one for every class of the
stream from the start and trains those of classes to come towards 0.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from remnant.images import Task
from remnant.losses import sigmoid_losses
from remnant.methods.backbones import BackboneConfig, build_backbone
from remnant.methods.base import Frozen, Method, MethodConfig, World
from remnant.methods.distillation import DistillationConfig, distill, make_teacher
from remnant.methods.nearest_mean import NearestMean
from remnant.models.classifier import LinearClassifier
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

    def __init__(self, config: ICaRLConfig, world: World) -> None:
        super().__init__(config, world)
        backbone = build_backbone(config.backbone, world.image_shape[2])
        self.backbone = backbone
        self.classifier = LinearClassifier(backbone.width)
        self.nearest_mean = NearestMean(backbone.width)
        self.num_averaged = sum(world.task_sizes) if config.average_over == "stream" else None
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
        terms = {"classify": F.cross_entropy(scores, batch.labels)}
        if old is not None:
            terms["distill"] = distill(self.config.distillation, scores, old)
        return terms

    def predict(self, views: Tensor) -> Tensor:
        features = self.features(views)
        if self.config.prediction == "scores":
            return self.classifier(features)
        return self.nearest_mean(features)

    def end_task(self, task: Task, reader: Reader) -> None:
        super().end_task(task, reader)
        exemplars = self.replay()
        assert exemplars is not None, "the memory holds the classes seen"
        is_mirrored = self.config.mirror_exemplars
        self.nearest_mean.fill(self.features, exemplars, reader, is_mirrored=is_mirrored)

    def grow(self, task: Task) -> None:
        super().grow(task)
        self.nearest_mean.grow(task.num_new_classes)
