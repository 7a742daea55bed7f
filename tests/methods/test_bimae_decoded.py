"""Redrawing a share of the masked images."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from remnant.errors import InputError
from remnant.methods.bimae import BilateralConfig
from tests.support.small_bimae import CONV, NETWORK, make_batch, make_method

SIDE = {"view": "full", "side_ratio": 1.0, "has_detail_branch": False}


def draw_decode(*draws: float) -> dict[str, object]:
    """A batch in which the draws that choose what is decoded are these."""

    def draw(name: str, *shape: int) -> Tensor:
        return (
            torch.tensor(draws) if name == "decode" else make_batch(len(draws)).draw(name, *shape)
        )

    return {"draw": draw}


@pytest.mark.parametrize(
    ("network", "options"),
    [(NETWORK, {}), (NETWORK, SIDE), (CONV, SIDE)],
    ids=["masked", "full", "conv"],
)
def test_the_images_decoded_stand_for_all(
    network: BilateralConfig, options: dict[str, object]
) -> None:
    method = make_method("raw", num_classes=2, network=network, decoded_ratio=0.5, **options).eval()
    batch = make_batch(4, labels=torch.tensor([0, 1, 0, 1]), **draw_decode(0.1, 0.9, 0.4, 0.6))
    terms = method.loss(batch)
    method.config = method.config.model_copy(update={"decoded_ratio": 1.0})
    alone = [method.loss(batch.take(torch.tensor([row]))) for row in (0, 2)]
    for name in {"reconstruct", "detail"} & {*terms}:
        assert torch.allclose(terms[name], (alone[0][name] + alone[1][name]) / 2, rtol=1e-4)


def test_nothing_is_drawn_to_choose_among_all_or_for_none() -> None:
    drawn: list[str] = []

    def draw(name: str, *shape: int) -> Tensor:
        drawn.append(name)
        return torch.full((2,), 0.9) if name == "decode" else make_batch(2).draw(name, *shape)

    method = make_method("raw", num_classes=2)
    for ratio, expected in ((1.0, {"mask", "fine mask"}), (0.5, {"mask", "decode"})):
        drawn.clear()
        method.config = method.config.model_copy(update={"decoded_ratio": ratio})
        method.loss(make_batch(2, labels=torch.tensor([0, 1]), draw=draw))
        assert {*drawn} == expected


def test_the_loss_of_all_images_is_the_mean_over_all_choices() -> None:
    method = make_method("raw", num_classes=2, decoded_ratio=0.5).eval()
    labels = torch.tensor([0, 1, 0])
    chosen = [
        method.loss(make_batch(3, labels=labels, **draw_decode(*draws)))
        for draws in product((0.25, 0.75), repeat=3)  # equally likely at a ratio of 0.5
    ]
    method.config = method.config.model_copy(update={"decoded_ratio": 1.0})
    whole = method.loss(make_batch(3, labels=labels))
    for name in ("reconstruct", "detail"):
        mean = torch.stack([terms[name] for terms in chosen]).mean()
        torch.testing.assert_close(mean, whole[name], rtol=1e-4, atol=1e-6)


def test_a_batch_of_which_nothing_is_decoded_still_classifies() -> None:
    method = make_method("raw", num_classes=2, decoded_ratio=0.1)
    batch = make_batch(4, labels=torch.tensor([0, 1, 0, 1]), **draw_decode(0.2, 0.9, 0.4, 0.6))
    terms = method.loss(batch)
    assert (terms["reconstruct"], terms["detail"]) == (0, 0)
    assert terms["classify"] > 0


def test_nothing_is_decoded_without_reconstruction() -> None:
    with pytest.raises(InputError, match="decoded_ratio must be 1"):
        make_method("raw", decoded_ratio=0.5, reconstruction="off")
