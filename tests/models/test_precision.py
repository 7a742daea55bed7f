"""What stays in float32 while a network is trained in bf16."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from remnant.methods.nearest_mean import NearestMean
from remnant.models.classifier import LinearClassifier
from remnant.models.cosine import CosineClassifier, ProxyClassifier, SplitClassifier
from remnant.models.precision import attend, in_float32
from remnant.models.task_transformer import TaskTransformer
from tests.support.worlds import seeded


@pytest.mark.parametrize(
    "build",
    [lambda: LinearClassifier(8), lambda: CosineClassifier(8), lambda: ProxyClassifier(8, 2)],
)
def test_scores_are_not_rounded_to_bf16(
    build: Callable[[], LinearClassifier | SplitClassifier],
) -> None:
    classifier = build()
    classifier.grow(5, seeded(1))
    features = torch.randn(6, 8, generator=seeded(2))
    exact = classifier(features)
    with torch.autocast("cpu", torch.bfloat16):
        scores = classifier(features)
    assert scores.dtype is torch.float32
    assert torch.equal(scores, exact)


@pytest.mark.parametrize("build", [lambda: CosineClassifier(8), lambda: ProxyClassifier(8, 2)])
def test_similarities_in_losses_are_not_rounded_either(
    build: Callable[[], SplitClassifier],
) -> None:
    classifier = build()
    classifier.grow(5, seeded(1))
    features = torch.randn(6, 8, generator=seeded(2))
    with torch.autocast("cpu", torch.bfloat16):
        mixed = classifier.similarities(features)
    assert torch.equal(mixed, classifier.similarities(features))


def test_cosines_to_class_means_are_not_rounded_to_bf16() -> None:
    classifier = NearestMean(8)
    classifier.grow(5)
    classifier.means.normal_(generator=seeded(4))
    features = torch.randn(6, 8, generator=seeded(5))
    with torch.autocast("cpu", torch.bfloat16):
        mixed = classifier(features)
    assert torch.equal(mixed, classifier(features))


def test_scores_of_task_heads_are_not_rounded_to_bf16() -> None:
    network = TaskTransformer(
        (8, 8, 3), patch_size=4, width=8, depth=1, head_width=4, mlp_width=8,
        drop_path_ratio=0.0, initial_deviation=0.02,
    )  # fmt: skip
    network.heads.append(network.make_head(3))
    embeddings = torch.randn(2, 1, 8, generator=seeded(3))
    with torch.autocast("cpu", torch.bfloat16):
        scores = network.classify(embeddings)
    assert torch.equal(scores, network.classify(embeddings))


def test_attention_of_bf16_tokens_is_computed_in_float32() -> None:
    tokens = [torch.randn(2, 3, 5, 4, generator=seeded(seed)).bfloat16() for seed in (1, 2, 3)]
    for one in tokens:
        one.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        mixed = attend(*tokens)
    exact = functional.scaled_dot_product_attention(*(one.detach().float() for one in tokens))
    torch.testing.assert_close(mixed, exact)  # bf16 would be off by a hundred times as much
    mixed.sum().backward()
    assert all(one.grad is not None and one.grad.dtype is torch.bfloat16 for one in tokens)


def test_without_autocast_nothing_is_copied() -> None:
    tensors: list[Tensor] = [torch.ones(2), torch.ones(2, device="meta")]
    for tensor in tensors:
        with in_float32(tensor) as same:
            assert same is tensor
