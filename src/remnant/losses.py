"""Loss terms: pure functions of tensors.

[bimae] Zhai et al., ICCV 2023. [kd] Hinton et al., 2015.
[icarl] Rebuffi et al., CVPR 2017. [ucir] Hou et al., CVPR 2019.
[podnet] Douillard et al., ECCV 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional


def reconstruction_loss(completed: Tensor, views: Tensor) -> Tensor:
    """Mean squared error over all pixels, visible ones too."""
    return functional.mse_loss(completed, views)  # [bimae] E5


def detail_loss(detail: Tensor, target: Tensor) -> Tensor:
    """Mean modulus of the difference, over all coefficients of two spectra.

    Real tensors are taken as they are: views give the loss in the spatial domain.
    """
    return (detail - target).abs().mean()  # [bimae] E7


def distillation_loss(
    scores: Tensor,
    teacher_scores: Tensor,
    temperature: float,
    *,
    form: Literal["divergence", "cross-entropy"] = "divergence",
    times_temperature_squared: bool = True,
    mean_over: Literal["images", "entries"] = "images",
) -> Tensor:
    """How far softened scores [B, K] are from a teacher's [B, K], by the convention asked for.

    Args:
        scores: Of the student, over the classes that the teacher knows.
        teacher_scores: Over the same classes.
        temperature: What both are divided by before the softmax.
        form: KL(teacher || student), or the cross-entropy, which is larger by the entropy of the
            teacher and has the same gradient.
        times_temperature_squared: Keeps gradients of the size that they have at temperature 1 [kd].
        mean_over: The B images, or all B x K entries, which is K times weaker.
    """
    student = functional.log_softmax(scores / temperature, dim=1)
    teacher = functional.log_softmax(teacher_scores / temperature, dim=1)
    if form == "divergence":
        loss = functional.kl_div(student, teacher, reduction="batchmean", log_target=True)
    else:
        loss = functional.cross_entropy(scores / temperature, teacher.exp())
    if mean_over == "entries":
        loss = loss / scores.shape[1]
    return loss * temperature**2 if times_temperature_squared else loss


def sigmoid_losses(
    scores: Tensor, labels: Tensor, teacher_scores: Tensor | None, num_classes: int | None = None
) -> tuple[Tensor, Tensor]:
    """Binary cross-entropy of new classes against labels and of old ones against a teacher [icarl].

    Their sum is one mean over images and classes. An old class is to score as the teacher does,
    whatever the label: for images of old classes the label is not used.

    Args:
        scores: [B, K].
        labels: int64 [B].
        teacher_scores: [B, K_old] of the first K_old classes, or None when all classes are new.
        num_classes: The classes that the sum is divided by; None: all K.
    """
    num_old = 0 if teacher_scores is None else teacher_scores.shape[1]
    share = 1 / (len(scores) * (num_classes or scores.shape[1]))
    targets = functional.one_hot(labels, scores.shape[1]).to(scores)
    if teacher_scores is not None:
        targets[:, :num_old] = teacher_scores.sigmoid()
    losses = functional.binary_cross_entropy_with_logits(scores, targets, reduction="none")
    return losses[:, num_old:].sum() * share, losses[:, :num_old].sum() * share


# ------------------------------------------------------------------------------------ cosine losses


def direction_loss(features: Tensor, teacher_features: Tensor) -> Tensor:
    """Mean of 1 - cosine over images [B, D]: less-forget in [ucir], POD-flat in [podnet]."""
    return 1 - functional.cosine_similarity(features, teacher_features).mean()


def margin_ranking_loss(
    cosines: Tensor, labels: Tensor, num_old_classes: int, margin: float, num_rivals: int
) -> Tensor:
    """How far images of old classes fail to beat the likeliest new classes by a margin [ucir].

    The mean is over images of old classes and their rivals; 0 where there is none.

    Args:
        cosines: Unscaled, [B, K], old classes first.
        labels: int64 [B].
        num_old_classes: Labels below it are old.
        margin: By which the true class is to lead.
        num_rivals: New classes of largest cosine; all where there are fewer.
    """
    is_old = labels < num_old_classes
    if not bool(is_old.any()):
        return cosines.sum() * 0  # keeps a gradient, of zero
    chosen = cosines[is_old]
    rivals = chosen[:, num_old_classes:]
    rivals = rivals.topk(min(num_rivals, rivals.shape[1]), dim=1).values  # [B_old, rivals]
    truth = chosen.gather(1, labels[is_old, None])  # [B_old, 1]
    return functional.relu(margin - truth + rivals).mean()


def pod_spatial_loss(maps: Sequence[Tensor], teacher_maps: Sequence[Tensor]) -> Tensor:
    """Mean distance between pooled maps [B, C, H, W], over images, then over maps [podnet]."""
    distances = [
        (_pool_sides(student) - _pool_sides(teacher)).norm(dim=1).mean()
        for student, teacher in zip(maps, teacher_maps, strict=True)
    ]
    return sum(distances[1:], start=distances[0]) / len(distances)


def _pool_sides(maps: Tensor) -> Tensor:
    """Squares summed over the width and over the height, as one unit vector per image."""
    energy = maps.square()
    sides = [energy.sum(dim=3).flatten(1), energy.sum(dim=2).flatten(1)]  # C x H, C x W
    return functional.normalize(torch.cat(sides, dim=1))


def nca_loss(
    similarities: Tensor,
    labels: Tensor,
    scale: Tensor,
    margin: float,
    form: Literal["paper", "released"] = "paper",
) -> Tensor:
    """Neighbourhood component analysis: the true class against all others, mean over images.

    Args:
        similarities: [B, K].
        labels: int64 [B].
        scale: Learnable factor of all similarities, eta.
        margin: By which the true class is to lead; "released" does not depend on it.
        form: "paper": the true class is not in the denominator, and an image that leads by the
            margin costs nothing. "released": the code of [podnet], where the scores are shifted to
            a maximum of 0 and a 1 stands for the true class in the denominator.
    """
    is_truth = functional.one_hot(labels, similarities.shape[1]).bool()
    scaled = scale * similarities
    if form == "released":
        scaled = scaled - scaled.max(dim=1, keepdim=True).values
        others = scaled.masked_fill(is_truth, 0)
        return (others.logsumexp(dim=1) - scaled[is_truth]).mean()
    # The least number, not minus infinity: with a single class there is no other.
    others = scaled.masked_fill(is_truth, torch.finfo(scaled.dtype).min)
    return functional.relu(others.logsumexp(dim=1) - scaled[is_truth] + scale * margin).mean()
