from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from remnant.memory import RawConfig
from remnant.methods.bimae import BiMAE
from remnant.phases import Batch
from tests.support.small_bimae import (
    NETWORK,
    Spy,
    literal_twin,
    make_batch,
    make_method,
    some_known,
)

ENCODER = ("network.encoder", "network.detail_branch")
READOUT = ("network.fusion", "network.classifier")


def gradients(method: BiMAE, loss: Tensor) -> dict[str, Tensor]:
    """Of every parameter that has a gradient other than zero."""
    method.zero_grad()
    loss.backward()
    return {
        name: parameter.grad.clone()
        for name, parameter in method.named_parameters()
        if parameter.grad is not None and bool((parameter.grad != 0).any())
    }


def names(method: BiMAE, *prefixes: str) -> set[str]:
    return {name for name, _ in method.named_parameters() if name.startswith(prefixes)}


def total(method: BiMAE, batch: Batch) -> Tensor:
    return torch.stack(list(method.loss(batch).values())).sum()


def double_batch(**changes: Any) -> Batch:
    return make_batch(views=make_batch().views.double(), **changes)


# ------------------------------------------------------------------- E1 to E8, against slow loops

CASES: dict[str, dict[str, Any]] = {
    "the paper": {},
    "a separate pass for x1": {"reuse_main_as_x1": False},
    "r other than r1": {"mask_ratio": 0.5},
    "other weights": {"classify_weight": 2.0, "reconstruct_weight": 0.3, "detail_weight": 0.7},
    "frequencies per patch": {"network": NETWORK.model_copy(update={"frequency_per": "patch"})},
    "spatial domain": {"detail_domain": "spatial"},
    "no detail branch": {"has_detail_branch": False},
}


def masks_in(spy: Spy, is_whole: list[bool]) -> list[list[list[int]]]:
    """The masks of x, x1 and x2 that a loss has used; x1 and x2 exist for whole images alone."""
    main, *others = [visible_ids.tolist() for _, visible_ids in spy.calls]
    if not others:
        return [main, main, main]
    fine, *coarse = [iter(mask) for mask in others]
    spread = [next(fine) if whole else [] for whole in is_whole]
    return [main, list(coarse[0]) if coarse else main, spread]


@pytest.mark.parametrize(
    ("case", "has_exact_views"),
    [(case, False) for case in CASES] + [("the paper", True), ("no detail branch", True)],
)
def test_the_loss_and_its_gradient_equal_the_literal_equations(
    case: str, has_exact_views: bool
) -> None:
    method = make_method(num_classes=3, **CASES[case]).double()
    known = some_known(3) if has_exact_views else torch.ones(3, 4, 4, dtype=torch.bool)
    known[1] = True
    batch = double_batch(is_known=known if has_exact_views else None)
    spy = Spy(method.network, "encode_first")
    fast = method.loss(batch)
    fast_gradients = gradients(method, torch.stack(list(fast.values())).sum())

    is_whole = known.flatten(1).all(1).tolist()
    config = method.config
    slow = literal_twin(method).terms(
        batch.views,
        batch.labels.tolist(),
        masks_in(spy, is_whole),
        (config.classify_weight, config.reconstruct_weight, config.detail_weight),
        is_whole,
    )
    assert set(fast) == set(slow)
    for name, term in slow.items():
        torch.testing.assert_close(fast[name], term, rtol=1e-5, atol=1e-5)
    slow_gradients = gradients(method, torch.stack(list(slow.values())).sum())
    assert set(fast_gradients) == set(slow_gradients)
    for name, expected in slow_gradients.items():
        torch.testing.assert_close(fast_gradients[name], expected, rtol=1e-5, atol=1e-5)


def test_in_single_precision_too_the_loss_equals_the_literal_equations() -> None:
    method, batch = make_method(num_classes=3), make_batch()
    spy = Spy(method.network, "encode_first")
    fast = method.loss(batch)
    masks = masks_in(spy, [True] * 3)
    slow = literal_twin(method).terms(batch.views, batch.labels.tolist(), masks)
    for name, term in slow.items():
        torch.testing.assert_close(fast[name].double(), term, rtol=1e-5, atol=1e-5)


def test_x1_and_x2_see_as_many_patches_as_their_ratios_say_and_others_than_x() -> None:
    method = make_method(num_classes=3, reuse_main_as_x1=False)
    spy = Spy(method.network, "encode_first")
    method.loss(make_batch())
    main, fine, coarse = [visible_ids for _, visible_ids in spy.calls]
    assert (main.shape[1], coarse.shape[1], fine.shape[1]) == (4, 4, 9)  # of 16: r, r1, r2
    assert not torch.equal(main, coarse)
    rows = zip(coarse.tolist(), fine.tolist(), strict=True)
    assert not all(set(few) <= set(many) for few, many in rows)  # not cut from one shuffle


def test_where_r_is_r1_a_pass_is_saved() -> None:
    method = make_method(num_classes=3)
    spy = Spy(method.network, "encode_first")
    method.loss(make_batch())
    assert len(spy.calls) == 2


def test_a_batch_in_two_parts_has_the_loss_and_gradient_of_the_whole() -> None:
    method = make_method(num_classes=4).double()
    known = some_known(4)
    known[1:3] = True  # one exact view in each part
    views = make_batch(4).views.double()
    batch = make_batch(4, views=views, is_known=known)
    whole = gradients(method, total(method, batch))

    def part(rows: slice) -> Batch:
        return replace(
            batch,
            views=views[rows],
            labels=batch.labels[rows],
            is_known=known[rows],
            draw=lambda name, *shape: batch.draw(name, *shape)[rows],
        )

    halves = total(method, part(slice(0, 1))) / 4 + total(method, part(slice(1, 4))) * 3 / 4
    parted = gradients(method, halves)
    assert set(parted) == set(whole)
    for name, expected in whole.items():
        torch.testing.assert_close(parted[name], expected)


# ---------------------------------------------------------------------------------------- gradients


def test_every_parameter_trains() -> None:
    method = make_method(num_classes=3)
    assert set(gradients(method, total(method, make_batch()))) == names(method, "")


@pytest.mark.parametrize(
    ("term", "untrained"),
    [
        ("classify", ("network.decoder",)),
        ("reconstruct", READOUT),
        # x1 and x2 carry no gradient: nothing else of the detail loss reaches F[1:].
        ("detail", (*READOUT, "network.encoder.rest")),
    ],
)
@pytest.mark.parametrize("reuse", [True, False])
def test_each_term_trains_the_parts_that_its_equation_names(
    term: str, untrained: tuple[str, ...], reuse: bool
) -> None:
    method = make_method(num_classes=3, reuse_main_as_x1=reuse)
    trained = set(gradients(method, method.loss(make_batch())[term]))
    assert trained == names(method, "") - names(method, *untrained)


def test_decoder_only_reconstruction_leaves_the_encoder_to_the_classification() -> None:
    method, batch = make_method(num_classes=3, reconstruction="decoder"), make_batch()
    terms = method.loss(batch)
    drawing = set(gradients(method, terms["reconstruct"] + terms["detail"]))
    assert drawing == names(method, "network.decoder")
    both = gradients(method, total(method, batch))
    alone = gradients(method, method.loss(batch)["classify"])
    for name in names(method, *ENCODER):
        assert torch.equal(both[name], alone[name])


def test_without_reconstruction_no_decoder_runs_and_none_trains() -> None:
    method = make_method(RawConfig(), num_classes=3, reconstruction="off")
    decode = Spy(method.network.decoder, "forward")
    terms = method.loss(make_batch())
    assert set(terms) == {"classify"}
    assert not decode.calls
    trained = set(gradients(method, terms["classify"]))
    assert trained == names(method, *ENCODER, *READOUT)
