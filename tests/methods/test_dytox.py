from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from remnant.errors import InputError
from remnant.memory import Memory, MemoryConfig
from remnant.methods.base import MethodContext
from remnant.methods.dytox import DyTox, DyToxConfig, draw_share
from remnant.phases import Batch
from remnant.training.trainer import Trainer
from tests.support.small_bimae import SHAPE, Spy, batches_of, make_batch, make_task, make_trainer
from tests.support.small_residual import learn_task
from tests.support.worlds import MEAN, SEED_OFFSET, STD, seeded

NETWORK = {"patch_size": 4, "width": 16, "depth": 2, "head_width": 8, "mlp_width": 24}
ADAMW = {"name": "adamw", "lr": 1e-3}
SCHEDULE = {"epochs": 1, "batch_size": 8, "optimizer": ADAMW}
PATCHES = {"name": "patches", "patch_size": 4}
LABELS = [0, 3, 2]  # one old class, two new ones


def make_dytox(*, codec: Any = "raw", **options: Any) -> DyTox:
    """Before its first task, with a memory of three images per class."""
    settings = {"network": NETWORK, "first": SCHEDULE, "balanced_tuning": SCHEDULE, **options}
    memory = MemoryConfig.model_validate({"budget": "3images/class", "codec": codec})
    torch.manual_seed(SEED_OFFSET + 5)
    config = DyToxConfig.model_validate(settings)
    return DyTox(config, MethodContext(SHAPE, (2, 2), Memory(memory, SHAPE, seed=3)))


def shake(method: DyTox) -> None:
    """Give every weight a large value, so that no part can be left out unnoticed."""
    source = seeded(0)
    for parameter in method.parameters():
        parameter.data.normal_(std=0.3, generator=source)


def in_second_task(trainer: Trainer, **options: Any) -> DyTox:
    method = make_dytox(**options)
    learn_task(method, 0, trainer)
    method.eval().begin_task(make_task(1), trainer.reader)
    shake(method)
    return method


def batch_of(labels: list[int], **changes: Any) -> Batch:
    return make_batch(len(labels), labels=torch.tensor(labels), **changes)


# ------------------------------------------------------------------------------------------- losses


def slow_bce(scores: Tensor, targets: list[list[float]]) -> float:
    """Mean over images and outputs, one by one."""
    losses = []
    for row, wanted in zip(scores.tolist(), targets, strict=True):
        for score, target in zip(row, wanted, strict=True):
            chance = 1 / (1 + math.exp(-score))
            losses.append(-target * math.log(chance) - (1 - target) * math.log(1 - chance))
    return sum(losses) / len(losses)


def one_hot(label: int, num_classes: int) -> list[float]:
    return [float(label == index) for index in range(num_classes)]


def slow_divergence(scores: Tensor, teacher_scores: Tensor) -> float:
    """KL(teacher || student) over the old classes, the mean over images *and* classes."""
    total, num_old = 0.0, teacher_scores.shape[1]
    for row, old in zip(scores.tolist(), teacher_scores.tolist(), strict=True):
        student = [math.exp(score) for score in row[:num_old]]
        teacher = [math.exp(score) for score in old]
        for one, other in zip(student, teacher, strict=True):
            share = other / sum(teacher)
            total += share * (math.log(share) - math.log(one / sum(student)))
    return total / (len(scores) * num_old)


def undropped(method: DyTox) -> DyTox:
    method.network.drop_ratios = [0.0] * len(method.network.drop_ratios)
    return method


def test_the_first_task_is_binary_cross_entropy_alone() -> None:
    method = undropped(make_dytox())
    method.begin_task(make_task(0), make_trainer().reader)
    shake(method)
    batch = batch_of([0, 1, 1])
    scores = method.predict(batch.views).detach()
    terms = {name: term.item() for name, term in method.loss(batch).items()}
    expected = slow_bce(scores, [one_hot(label, 2) for label in (0, 1, 1)])
    assert terms == {"classify": pytest.approx(expected, rel=1e-5)}


def test_later_losses_weigh_labels_and_teacher_by_the_shares_of_new_and_old_classes() -> None:
    method = undropped(in_second_task(make_trainer()))
    assert method.teacher is not None
    method.network.grow(4)  # 2 old and 6 new classes: a = 1/4
    assert method.diversity is not None
    method.diversity = method.network.make_head(7)
    with torch.no_grad():  # away from the teacher, whose loss would be rounding alone
        method.network.heads[0][1].bias[0] += 3
    batch = batch_of(LABELS)
    scores, old = method.predict(batch.views).detach(), method.teacher(batch.views)
    told_apart = method.diversity(method.network.embed(batch.views)[:, -1]).detach()
    expected = {
        "classify": 3 / 4 * slow_bce(scores, [one_hot(label, 8) for label in LABELS]),
        "distill": 1 / 4 * slow_divergence(scores, old),
        # 0 for any old class, then the new ones.
        "diversity": 0.1 * slow_bce(told_apart, [one_hot(place, 7) for place in (0, 2, 1)]),
    }
    terms = {name: term.item() for name, term in method.loss(batch).items()}
    assert terms == pytest.approx(expected, rel=1e-4)


def test_mixup_mixes_views_and_smoothed_targets_with_the_reversed_batch() -> None:
    method = undropped(in_second_task(make_trainer(), mixup={}))
    assert method.teacher is not None
    assert method.diversity is not None
    labels = [0, 3, 2, 1]
    batch = batch_of(labels)
    share = draw_share(float(batch.draw("mixup")[0]), alpha=0.8)
    views = torch.stack(
        [share * batch.views[i] + (1 - share) * batch.views[3 - i] for i in range(4)]
    )
    smooth = [[0.9 * hot + 0.1 / 4 for hot in one_hot(label, 4)] for label in labels]
    targets = [
        [share * a + (1 - share) * b for a, b in zip(smooth[i], smooth[3 - i], strict=True)]
        for i in range(4)
    ]
    merged = [[row[0] + row[1], row[2], row[3]] for row in targets]
    scores, old = method.predict(views).detach(), method.teacher(views)
    told_apart = method.diversity(method.network.embed(views)[:, -1]).detach()
    terms = {name: term.item() for name, term in method.loss(batch).items()}
    assert terms == pytest.approx(
        {
            "classify": 1 / 2 * slow_bce(scores, targets),
            "distill": 1 / 2 * slow_divergence(scores, old),
            "diversity": 0.1 * slow_bce(told_apart, merged),
        },
        rel=1e-4,
    )
    tuned = method._tune(batch)
    assert tuned["classify"].item() == pytest.approx(slow_bce(scores, targets), rel=1e-5)
    assert set(tuned) == {"classify"}


def test_the_middle_image_of_an_odd_batch_stays_unmixed() -> None:
    method = in_second_task(make_trainer(), mixup={"label_smoothing": 0})
    batch = batch_of(LABELS)
    views, targets = method._mix(batch)
    torch.testing.assert_close(views[1], batch.views[1])
    torch.testing.assert_close(targets[1], torch.tensor(one_hot(3, 4)))


def test_shares_follow_the_beta_distribution_and_one_number_decides() -> None:
    numbers = torch.rand(2000, generator=seeded(0)).tolist()
    shares = torch.tensor([draw_share(number, alpha=0.8) for number in numbers])
    assert shares.mean().item() == pytest.approx(0.5, abs=0.02)
    assert shares.var().item() == pytest.approx(1 / (4 * (2 * 0.8 + 1)), abs=0.005)
    assert draw_share(0.3, 0.8) == draw_share(0.3, 0.8)


def test_what_a_residual_loses_is_decided_image_by_image() -> None:
    """So that it does not matter how a batch is split."""
    method = in_second_task(make_trainer())
    labels = [0, 1, 2, 3]
    whole = batch_of(labels)
    total = 0.0
    for rows in (slice(0, 1), slice(1, 4)):
        part = make_batch(
            labels=whole.labels[rows],
            views=whole.views[rows],
            draw=lambda name, *shape, rows=rows: whole.draw(name, *shape)[rows],
        )
        total += method.loss(part)["classify"].item() * len(part.labels) / 4
    assert method.loss(whole)["classify"].item() == pytest.approx(total, rel=1e-5)
    undropped(method)
    assert method.loss(whole)["classify"].item() != pytest.approx(total, rel=1e-4)


# ------------------------------------------------------------------------------------------- phases


def learn_second_task(method: DyTox, trainer: Trainer) -> dict[str, set[str]]:
    """Run the phases of the second task; which parameters moved in each."""
    task, moved = make_task(1), {}
    method.begin_task(task, trainer.reader)
    for phase in method.phases(task, trainer.reader):
        before = {name: value.detach().clone() for name, value in method.named_parameters()}
        trainer.fit(method, task, phase)
        moved[phase.name] = {
            name
            for name, value in method.named_parameters()
            if not torch.equal(value.detach(), before[name])
        }
    method.end_task(task, trainer.reader)
    return moved


def test_old_tokens_and_heads_stand_still_until_they_are_tuned_while_the_encoder_does() -> None:
    trainer, method = make_trainer(), make_dytox()
    learn_task(method, 0, trainer)
    moved = learn_second_task(method, trainer)
    names = {name for name, _ in method.named_parameters()}
    old = {name for name in names if name.startswith(("network.task_tokens.0", "network.heads.0"))}
    asked = {name for name in names if ".task_" in name or ".heads." in name}
    passive = {name for name in names if name.endswith("positions.bias")}  # moved by rounding alone
    assert len(old) == 5
    head = {f"diversity.{layer}.{kind}" for layer in (0, 1) for kind in ("weight", "bias")}
    assert moved["train"] | passive == (names - old) | head
    assert moved["tune"] == asked


def test_tuning_is_on_the_balanced_memory_new_classes_included() -> None:
    trainer, method = make_trainer(), make_dytox()
    learn_task(method, 0, trainer)
    task = make_task(1)
    method.begin_task(task, trainer.reader)
    phases = method.phases(task, trainer.reader)
    train, tune = next(phases), next(phases)
    assert train.replay is not None
    assert train.replay.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert tune.data.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert tune.replay is None
    assert next(phases, None) is None
    assert method.memory is not None
    digest = method.memory.digest()
    method.end_task(task, trainer.reader)
    assert method.memory.digest() == digest  # nothing is stored twice


def test_the_first_task_is_not_tuned_but_remembered() -> None:
    trainer, method = make_trainer(), make_dytox()
    log = learn_task(method, 0, trainer)
    assert {report.phase for report in log.reports} == {"train"}
    assert method.memory is not None
    assert method.memory.counts == [3, 3]


def test_the_diversity_head_lives_as_long_as_its_task() -> None:
    trainer, method = make_trainer(), make_dytox()
    method.begin_task(make_task(0), trainer.reader)
    assert method.diversity is None
    before = sum(parameter.numel() for parameter in method.parameters())
    method.begin_task(make_task(1), trainer.reader)
    assert method.diversity is not None
    assert method.diversity[1].out_features == 3
    method.end_task(make_task(1), trainer.reader)
    assert method.diversity is None
    after = sum(parameter.numel() for parameter in method.parameters())
    assert after - before == 16 + 2 * 16 + 2 * 16 + 2  # a token, a LayerNorm, a linear layer


def test_features_are_the_embeddings_of_all_tasks() -> None:
    method = in_second_task(make_trainer())
    views = make_batch().views
    embeddings = method.network.embed(views)
    assert embeddings.shape == (3, 2, 16)
    assert torch.equal(method.features(views), torch.cat([embeddings[:, 0], embeddings[:, 1]], 1))


def test_predictions_drop_nothing() -> None:
    method = in_second_task(make_trainer()).train()
    views = make_batch().views
    assert torch.equal(method.predict(views), method.predict(views))


# --------------------------------------------------------------------------------- masked exemplars


def test_masked_exemplars_enter_whole_with_hidden_patches_in_the_mean_colour() -> None:
    trainer, method = make_trainer(), make_dytox(codec=PATCHES)
    learn_task(method, 0, trainer)
    task = make_task(1)
    method.begin_task(task, trainer.reader)
    phase = next(method.phases(task, trainer.reader))
    assert phase.replay is not None
    assert phase.replay.is_known is not None
    images = phase.replay.images.read(torch.arange(len(phase.replay)))
    hidden = ~phase.replay.is_known.repeat_interleave(4, dim=1).repeat_interleave(4, dim=2)
    assert (images[hidden] == round(255 * MEAN[0])).all()
    spy = Spy(method.network, "embed")
    for batch in batches_of(phase):
        assert batch.is_known is not None
        assert batch.is_known.all()  # cropped like the others
        method.loss(batch)
    assert all(known is None for _, known, _ in spy.calls)


def test_masked_exemplars_can_enter_by_their_stored_patches_alone() -> None:
    trainer, method = make_trainer(), make_dytox(codec=PATCHES, masked_input="tokens")
    learn_task(method, 0, trainer)
    task = make_task(1)
    method.begin_task(task, trainer.reader)
    shake(method)
    phase = next(method.phases(task, trainer.reader))
    batch = next(one for one in batches_of(phase) if one.is_replay.any())
    assert batch.is_known is not None
    known = batch.is_known.flatten(1).sum(dim=1)
    assert known.tolist() == [4 if is_replay else 16 for is_replay in batch.is_replay.tolist()]
    terms = method.loss(batch)
    hidden = ~batch.is_known.repeat_interleave(4, dim=1).repeat_interleave(4, dim=2)[:, None]
    repainted = torch.where(hidden, torch.randn_like(batch.views), batch.views)
    again = method.loss(make_batch(**{**vars(batch), "views": repainted}))
    for name, term in terms.items():
        torch.testing.assert_close(again[name], term)


def test_tuning_shows_masked_exemplars_as_training_does() -> None:
    for masked_input, ratio in (("mean", 0.0), ("tokens", 1.0)):
        trainer = make_trainer()
        method = make_dytox(codec=PATCHES, masked_input=masked_input)
        learn_task(method, 0, trainer)
        task = make_task(1)
        method.begin_task(task, trainer.reader)
        for phase in method.phases(task, trainer.reader):
            assert phase.partial_view_ratio == ratio
            trainer.fit(method, task, phase)


@pytest.mark.parametrize("index", [0, 1])
def test_symmetric_new_images_are_masked_anew_at_every_step_as_much_as_exemplars(
    index: int,
) -> None:
    trainer = make_trainer()
    method = make_dytox(codec=PATCHES, masked_input="tokens", presentation="symmetric")
    if index == 1:
        learn_task(method, 0, trainer)
    task = make_task(index)
    method.begin_task(task, trainer.reader)
    phase = next(method.phases(task, trainer.reader))
    spy, masks = Spy(method.network, "embed"), set()
    for batch in [*batches_of(phase), *batches_of(phase)]:
        shown = method.shown_patches(batch)
        assert shown is not None
        assert set(shown.flatten(1).sum(dim=1).tolist()) == {4}
        masks.add(tuple(shown[~batch.is_replay].flatten().tolist()))
        if batch.is_known is not None:  # an exemplar keeps its own patches
            assert torch.equal(shown[batch.is_replay], batch.is_known[batch.is_replay])
        method.loss(batch)
        assert torch.equal(spy.calls[-1][1], shown)
    assert len(masks) == len(batches_of(phase))  # the same at the same step, another at the next


def test_symmetric_new_images_have_hidden_patches_in_the_colour_of_exemplars() -> None:
    trainer = make_trainer("none")
    method = make_dytox(codec=PATCHES, presentation="symmetric")
    task = make_task(0)
    method.begin_task(task, trainer.reader)
    phase = next(method.phases(task, trainer.reader))
    colour = (round(255 * MEAN[0]) / 255 - MEAN[0]) / STD[0]
    for batch in batches_of(phase, "none"):
        is_filled = (batch.views[:, 0] - colour).abs() < 1e-3  # [B, 16, 16]
        patches = is_filled.unfold(1, 4, 4).unfold(2, 4, 4).flatten(3).all(dim=3)
        assert set(patches.flatten(1).sum(dim=1).tolist()) == {12}
        assert method.shown_patches(batch) is None


def test_part_of_an_image_is_answered_as_an_exemplar_is_shown() -> None:
    views, known = make_batch(3).views, torch.zeros(3, 4, 4, dtype=torch.bool)
    known[:, 1] = True
    hidden = ~known.repeat_interleave(4, dim=1).repeat_interleave(4, dim=2)[:, None]
    for masked_input in ("mean", "tokens"):
        method = in_second_task(make_trainer(), codec=PATCHES, masked_input=masked_input)
        with torch.no_grad():
            scores = method.predict_parts(views, known)
            repainted = method.predict_parts(torch.where(hidden, 5.0, views), known)
            grey = method.predict(torch.where(hidden, 0.0, views))
        torch.testing.assert_close(repainted, scores)
        assert torch.allclose(grey, scores, atol=1e-5) == (masked_input == "mean")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codec": "raw"}, "memory.codec=patches"),
        ({"codec": {"name": "patches", "patch_size": 8}}, "got 8 and 4"),
        ({"codec": PATCHES, "mixup": {}}, "cannot be mixed"),
    ],
)
def test_settings_that_stored_patches_do_not_suit_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        make_dytox(masked_input="tokens", **options)


def test_a_network_that_does_not_suit_the_images_is_refused() -> None:
    with pytest.raises(InputError, match=r"method\.network: patch_size must divide"):
        make_dytox(network={**NETWORK, "patch_size": 5})
