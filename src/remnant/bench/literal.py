"""Bilateral MAE's training step as the paper writes it: the baseline for the speed of ours.

[bimae] E1 to E8, one tensor after the other: a separate pass for x1, a full fusion block of which
one token is used, one decode at a time. It computes the same losses with the same modules, so that
only the order of operations differs. The independent reference for the equations themselves is
slow and shares no code with the package: tests/support/literal_bilateral.py.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from remnant.models.bilateral import BilateralMAE

RATIOS = (0.75, 0.75, 0.40)  # r, r1, r2
WEIGHTS = (0.01, 1.0, 1.0)  # classification, reconstruction, detail


def literal_loss(
    network: BilateralMAE, views: Tensor, labels: Tensor, noise: tuple[Tensor, Tensor, Tensor]
) -> Tensor:
    """L of E8 for views [B, C, H, W]; `noise` draws the masks of r, r1 and r2, each [B, F]."""
    visible, coarse_ids, fine_ids = (
        network.visible_ids(draw, ratio) for draw, ratio in zip(noise, RATIOS, strict=True)
    )
    first = network.encode_first(views, visible)  # E1
    main = network.encode_rest(first)
    detail = network.detail(first)
    fused = network.fusion(torch.cat([main, detail], dim=1))
    features = network.fusion_norm(fused)[:, 0]
    classify = functional.cross_entropy(network.classify(features), labels)  # E2
    main_views = network.decode(main, visible)  # E3
    detail_views = network.decode(detail, visible)
    residual_views = network.inverse(network.high_pass(detail_views))  # E4
    reconstruct = ((views - (main_views + residual_views)) ** 2).mean()  # E5
    with torch.no_grad():  # E6
        coarse = network.decode(
            network.encode_rest(network.encode_first(views, coarse_ids)), coarse_ids
        )
        fine = network.decode(network.encode_rest(network.encode_first(views, fine_ids)), fine_ids)
    target = network.high_pass(fine - coarse)
    difference = (network.high_pass(detail_views) - target).abs().mean()  # E7
    terms = (classify, reconstruct, difference)
    return torch.stack([w * term for w, term in zip(WEIGHTS, terms, strict=True)]).sum()  # E8
