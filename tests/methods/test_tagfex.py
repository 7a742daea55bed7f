from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from remnant.errors import InputError
from remnant.methods import kept_bytes
from remnant.methods.tagfex import contrastive_loss, pairs
from remnant.models.guided_network import MergeAttention, last_positions
from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import (
    SCHEDULE,
    learn_task,
    make_residual,
    slow_cross_entropy,
    softmax,
)

PAIRED = {**SCHEDULE, "views_per_image": 2}
SMALL = {"first": PAIRED, "projector_hidden_width": 12, "projector_width": 6, "num_heads": 4}


def second_task(**options: Any) -> Any:
    trainer, method = make_trainer(), make_residual("tagfex", **{**SMALL, **options})
    learn_task(method, 0, trainer)
    method.eval().begin_task(make_task(1), trainer.reader)
    return method.eval()


def paired_batch() -> Any:
    """Two views each of a new image, of an exemplar and of a new one; and one view alone."""
    batch = make_batch(7, labels=torch.tensor([2, 2, 0, 0, 3, 3, 2]))
    return replace(
        batch,
        ids=torch.tensor([5, 5, 5, 5, 8, 8, 9]),
        is_replay=torch.tensor([False, False, True, True, False, False, False]),
    )


def slow_contrast(
    anchors: Tensor, others: Tensor, partners: dict[int, int], temperature: float
) -> float:
    """[tagfex] -log of the partner's share among all others, over anchors that have a partner."""

    def cosine(one: list[float], other: list[float]) -> float:
        product = sum(a * b for a, b in zip(one, other, strict=True))
        return product / math.hypot(*one) / math.hypot(*other)

    total, rows, columns = 0.0, anchors.tolist(), others.tolist()
    for place, partner in partners.items():
        powers = [
            math.exp(cosine(rows[place], columns[other]) / temperature) if other != place else 0.0
            for other in range(len(columns))
        ]
        total -= math.log(powers[partner] / sum(powers))
    return total / len(partners)


PARTNERS = {0: 1, 1: 0, 2: 3, 3: 2, 4: 5, 5: 4}


def test_views_of_one_image_are_pairs_and_a_view_alone_has_none() -> None:
    found = {tuple(place) for place in pairs(paired_batch()).nonzero().tolist()}
    assert found == set(PARTNERS.items())


def test_the_contrast_is_that_of_slow_loops() -> None:
    anchors, others = torch.randn(7, 5), torch.randn(7, 5)
    is_pair = pairs(paired_batch())
    for one, other in ((anchors, anchors), (anchors, others)):
        found = contrastive_loss(one, other, is_pair, 0.2).item()
        assert found == pytest.approx(slow_contrast(one, other, PARTNERS, 0.2), rel=1e-4)
    assert contrastive_loss(anchors, others, torch.zeros(7, 7, dtype=torch.bool), 0.2).item() == 0


def test_attention_is_over_the_guide_and_the_features_themselves() -> None:
    attention = MergeAttention(4, 2).double()
    own = torch.randn(1, 3, 4, dtype=torch.float64)
    guide = torch.randn(1, 3, 4, dtype=torch.float64)
    a, b = (F.layer_norm(one[0], (4,)) for one in (own, guide))  # norms start as the identity
    weights = {name: one.detach() for name, one in attention.weights.items()}
    keys = torch.cat([b @ weights["guide_key"], a @ weights["key"]]).tolist()
    values = torch.cat([b @ weights["guide_value"], a @ weights["value"]]).tolist()
    expected = [0.0] * 4
    for query in (a @ weights["query"]).tolist():
        for head in (0, 2):  # each head has two of the four features
            part = slice(head, head + 2)
            products = [
                sum(x * y for x, y in zip(query[part], key[part], strict=True)) for key in keys
            ]
            for share, value in zip(softmax(products, math.sqrt(2)), values, strict=True):
                expected[head] += share * value[head] / 3
                expected[head + 1] += share * value[head + 1] / 3
    assert attention(own, guide)[0].tolist() == pytest.approx(expected, rel=1e-6)


def test_the_first_task_classifies_and_contrasts() -> None:
    trainer, method = make_trainer(), make_residual("tagfex", **SMALL, contrast_weight=0.5)
    method.begin_task(make_task(0), trainer.reader)
    batch = replace(paired_batch(), labels=torch.tensor([0, 0, 1, 1, 0, 0, 1]))
    terms = method.eval().loss(batch)
    embedded = method.guide.projector(method.guide.network(batch.views)).detach()
    scores = method.predict(batch.views).detach()
    expected = {
        "classify": slow_cross_entropy(scores, batch.labels.tolist()),
        "contrast": 0.5 * slow_contrast(embedded, embedded, PARTNERS, 0.2),
    }
    found = {name: term.item() for name, term in terms.items()}
    assert found == {name: pytest.approx(value, rel=1e-3) for name, value in expected.items()}


def move(method: Any) -> None:
    """Away from where the task began, so that nothing is equal by chance."""
    with torch.no_grad():
        for parameter in (*method.guide.parameters(), *method.network.newest.parameters()):
            parameter += 0.02 * torch.randn(parameter.shape)


def test_later_tasks_have_the_terms_of_the_paper() -> None:
    method = second_task(auxiliary_weight=3.0, hold_weight=5.0, merge_weight=0.5)
    move(method)
    batch = paired_batch()
    terms = {name: term.item() for name, term in method.loss(batch).items()}
    views, labels = batch.views, batch.labels.tolist()
    scores = method.predict(views).detach()
    guide, former = method.guide, method.teacher.network
    now, then = guide.network(views), former.network(views)
    embedded = guide.projector(now).detach()
    predicted = former.projector(guide.predictor(now)).detach()
    newest = method.network.newest.network
    merged = method.heads.merged(
        method.heads.attention(last_positions(newest, views), last_positions(guide.network, views))
    ).detach()
    auxiliary = method.heads.auxiliary(newest(views)).detach()
    new = [row for row, label in enumerate(labels) if label >= 2]
    merge = slow_cross_entropy(merged[new], [labels[row] - 2 for row in new])
    held = slow_contrast(predicted, former.projector(then).detach(), PARTNERS, 0.2)
    expected = {
        "classify": slow_cross_entropy(scores, labels),
        "auxiliary": 3 * slow_cross_entropy(auxiliary, [max(0, label - 1) for label in labels]),
        "contrast": (1 - 2 / 4) * slow_contrast(embedded, embedded, PARTNERS, 0.2),
        "hold": 5 * 2 / 4 * held,
        "merge": 0.5 * merge,
    }
    transfer = terms.pop("transfer")
    assert terms == {name: pytest.approx(value, rel=1e-3) for name, value in expected.items()}
    if merge >= expected["classify"]:
        assert transfer == 0


@pytest.mark.parametrize("is_ahead", [True, False])
def test_merged_scores_are_distilled_where_they_are_ahead(is_ahead: bool) -> None:
    method = second_task(transfer_weight=2.0)
    scores, labels = torch.randn(3, 4), torch.tensor([2, 0, 3])
    merged = torch.tensor([[4.0, 0.0], [0.0, 0.0], [0.5, 3.0]], requires_grad=True)
    classify = torch.tensor(10.0 if is_ahead else 0.0)
    terms = method._transfer(scores, merged, labels, classify)
    expected = 0.0
    for row in (0, 2):  # rows of new classes: KL of softened scores over the new classes
        teacher, student = (softmax(one, 2.0) for one in
                            (merged[row].tolist(), scores[row, 2:].tolist()))  # fmt: skip
        expected += sum(p * math.log(p / q) for p, q in zip(teacher, student, strict=True)) / 2
    assert terms["transfer"].item() == pytest.approx(2 * expected * is_ahead, rel=1e-4)
    terms["transfer"].backward() if terms["transfer"].requires_grad else None
    assert merged.grad is None  # nothing flows back to the merged classifier


def test_a_new_extractor_starts_between_the_one_before_and_the_guide() -> None:
    method = second_task(previous_share=0.75)
    before, newest = (one.network.conv.weight for one in method.network.all())
    guide = method.guide.network.conv.weight
    torch.testing.assert_close(newest, 0.75 * before + 0.25 * guide)


def test_old_rows_read_nothing_of_a_new_extractor_so_that_scores_stay() -> None:
    trainer, method = make_trainer(), make_residual("tagfex", **SMALL)
    learn_task(method, 0, trainer)
    views = make_batch(3).views
    with torch.no_grad():
        before = method.predict(views)
        method.begin_task(make_task(1), trainer.reader)
        after = method.eval().predict(views)
    assert after.shape == (3, 4)
    torch.testing.assert_close(after[:, :2], before)


def test_what_helps_to_learn_a_task_is_dropped_and_rows_are_aligned() -> None:
    trainer, method = make_trainer(), make_residual("tagfex", **SMALL)
    old = None
    for index in (0, 1):
        learn_task(method, index, trainer)
        assert {key.split(".")[0] for key in method.state_dict()} == {"network", "guide"}
        old = old or {key: one.clone() for key, one in method.network.newest.state_dict().items()}
    lengths = method.network.classifier.weight.detach().norm(dim=1)
    torch.testing.assert_close(lengths[:2].mean(), lengths[2:].mean())
    first = method.network.all()[0].state_dict()
    assert all(torch.equal(first[key], one) for key, one in old.items())  # frozen, bit for bit
    weights = sum(one.nbytes for one in method.guide.state_dict().values())
    assert kept_bytes(method)["guide"] == weights


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(InputError, match="views_per_image of its schedules must be 2; got 1"):
        make_residual("tagfex", **{**SMALL, "first": SCHEDULE})
    with pytest.raises(InputError, match=r"must divide the 64 features of the backbone; got 7"):
        make_residual("tagfex", **{**SMALL, "num_heads": 7})
