from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from remnant.errors import InputError
from remnant.memory import Candidate, Memory, MemoryConfig, PatchesConfig, RawConfig
from remnant.methods.base import MethodContext
from remnant.methods.bimae import BilateralConfig, BiMAE, BiMAEConfig
from remnant.phases import Phase, StepReport
from tests.support.small_bimae import (
    NETWORK,
    PATCHES,
    SHORT,
    Spy,
    after_first_task,
    batches_of,
    learn,
    literal_twin,
    make_batch,
    make_method,
    make_task,
    make_trainer,
    shake,
)

# ----------------------------------------------------------------------------------- the paper's


def test_the_defaults_are_the_settings_of_the_paper_and_all_beyond_it_is_off() -> None:
    config = BiMAEConfig(first=SHORT)
    assert (config.classify_weight, config.reconstruct_weight, config.detail_weight) == (0.01, 1, 1)
    ratios = (config.mask_ratio, config.coarse_mask_ratio, config.fine_mask_ratio)
    assert ratios == (0.75, 0.75, 0.40)
    assert (config.generate_replay, config.reconstruction) == (True, "on")
    assert (config.has_detail_branch, config.detail_domain) == (True, "frequency")
    assert config.network == BilateralConfig(
        encoder="vit",
        patch_size=4,
        width=384,
        depth=5,
        head_width=32,
        mlp_width=1536,
        fusion_mlp_width=1536,
        cutoff=0.25,
        frequency_per="image",
    )
    beyond = {
        "exact_view_ratio": 0.0,
        "distill_weight": 0.0,
        "align_weights": False,
        "balanced_tuning": None,
        "refresh_every_epochs": None,
        "unmasked_ratio": 0.0,
        "presentation": "published",
        "view": "masked",
        "window_exemplars": 0,
        "side_ratio": 0.0,
        "codec_view_ratio": 0.0,
        "label_smoothing": 0.0,
        "average_decay": 0.0,
        "logit_adjustment": 0.0,
    }
    assert {name: getattr(config, name) for name in beyond} == beyond
    assert SHORT.sampling == "union"


@pytest.mark.parametrize(("count_overhead", "count"), [(True, 79), (False, 80)])
def test_the_bytes_of_twenty_raw_images_hold_four_times_as_many_exemplars(
    count_overhead: bool, count: int
) -> None:
    config = MemoryConfig(
        budget="20images/class", codec=PatchesConfig(), count_overhead=count_overhead
    )
    memory = Memory(config, (32, 32, 3), seed=0)
    memory.add_class(0, "grey", map(Candidate, [np.zeros((32, 32, 3), np.uint8)] * 100))
    assert memory.budget_bytes == 61_440
    assert memory.counts == [count]
    assert memory.nbytes == count * (768 + 8 * count_overhead) <= 61_440


def test_an_exemplar_of_224_pixels_takes_37632_bytes_beside_its_bitmap() -> None:
    config = MemoryConfig(budget="1MiB/class", codec=PatchesConfig(patch_size=16))
    memory = Memory(config, (224, 224, 3), seed=0)
    memory.add_class(0, "grey", map(Candidate, [np.zeros((224, 224, 3), np.uint8)]))
    (exemplar,) = memory.exemplars(0)
    assert len(exemplar.payload) == 37_632
    assert len(exemplar.positions) == math.ceil(196 / 8)


# --------------------------------------------------------------------------- options that compose


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    exact_view_ratio=st.sampled_from([0.0, 0.5, 1.0]),
    distill_weight=st.sampled_from([0.0, 1.0]),
    align_weights=st.booleans(),
    is_tuned=st.booleans(),
    refresh=st.sampled_from([None, 1]),
    unmasked_ratio=st.sampled_from([0.0, 0.5]),
    placement=st.sampled_from(["spread", "end"]),
    sampling=st.sampled_from(["union", "balanced"]),
    has_detail_branch=st.booleans(),
    reconstruction=st.sampled_from(["on", "decoder", "off"]),
)
def test_options_compose(
    exact_view_ratio: float,
    distill_weight: float,
    align_weights: bool,
    is_tuned: bool,
    refresh: int | None,
    unmasked_ratio: float,
    placement: str,
    sampling: str,
    has_detail_branch: bool,
    reconstruction: str,
) -> None:
    trainer = make_trainer()
    is_drawing = reconstruction != "off"  # a network that does not draw keeps whole images
    method = make_method(
        PATCHES if is_drawing else RawConfig(),
        first=SHORT.model_copy(update={"epochs": 2, "sampling": sampling}),
        exact_view_ratio=exact_view_ratio if is_drawing else 0.0,
        distill_weight=distill_weight,
        align_weights=align_weights,
        balanced_tuning=SHORT if is_tuned else None,
        refresh_every_epochs=refresh,
        unmasked_ratio=unmasked_ratio,
        unmasked_placement=placement,
        has_detail_branch=has_detail_branch,
        reconstruction=reconstruction,
    )
    logs = [learn(method, make_task(index), trainer) for index in range(2)]
    drawing = {"reconstruct"} | ({"detail"} if has_detail_branch else set())
    drawing = set() if reconstruction == "off" else drawing
    for index, log in enumerate(logs):
        classify = {"classify"} | ({"distill"} if index and distill_weight else set())
        trained = [report for report in log.reports if report.phase != "tune"]
        tuned = [report for report in log.reports if report.phase == "tune"]
        assert all(math.isfinite(report.loss) for report in log.reports)
        masked = [set(one.terms) for one in trained if set(one.terms) != classify]
        assert all(found == classify | drawing for found in masked)
        if drawing:
            assert len(masked) == len(trained) - int(unmasked_ratio * len(trained))
        assert bool(tuned) == (is_tuned and index == 1)
        assert all(set(report.terms) == classify for report in tuned)
        assert len({report.phase for report in trained}) == (2 if refresh and index else 1)
    assert method.memory is not None
    assert method.memory.nbytes <= method.memory.budget_bytes
    assert method.predict(make_batch().views).shape == (3, 4)


# ------------------------------------------------------------------------------------ distillation


def literal_divergence(teacher: Tensor, student: Tensor, temperature: float) -> float:
    p = torch.softmax(teacher / temperature, dim=0).tolist()
    q = torch.softmax(student / temperature, dim=0).tolist()
    return temperature**2 * sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def test_distillation_compares_old_scores_with_those_of_the_network_before() -> None:
    trainer = make_trainer()
    method = after_first_task(trainer, distill_weight=0.7, distill_temperature=3.0)
    before = make_method(num_classes=2)
    before.load_state_dict(method.state_dict())
    method.begin_task(make_task(1), trainer.reader)
    shake(method, seed=1)  # the network has moved on, far enough for the loss not to be rounding
    batch = make_batch(4)
    spy = Spy(method.network, "encode_first")
    found = method.loss(batch)["distill"]
    masks = spy.calls[0][1].tolist()
    old, new = literal_twin(before), literal_twin(method)
    losses = [
        literal_divergence(
            old.scores(view, visible).detach(), new.scores(view, visible).detach()[:2], 3.0
        )
        for view, visible in zip(batch.views.double(), masks, strict=True)
    ]
    assert found.item() == pytest.approx(0.7 * sum(losses) / 4, rel=1e-4)
    assert found.item() > 1e-2


def test_the_teacher_is_seen_by_no_optimiser_and_never_changes() -> None:
    trainer = make_trainer()
    method = after_first_task(trainer, distill_weight=1.0)
    assert method.teacher is None  # in the first task there was nothing to keep
    expected = {name: value.clone() for name, value in method.network.state_dict().items()}
    learn(method, make_task(1), trainer)
    assert method.teacher is not None
    teacher = method.teacher.network
    assert teacher.classifier.num_classes == 2
    for name, value in teacher.state_dict().items():
        assert torch.equal(value, expected[name])
    assert not torch.equal(method.network.encoder.class_token, expected["encoder.class_token"])
    mine = {id(parameter) for parameter in method.parameters()}
    for parameter in teacher.parameters():
        assert id(parameter) not in mine
        assert parameter.grad is None
        assert not parameter.requires_grad


# --------------------------------------------------------------------- tuning, alignment, unmasked


def weights(method: BiMAE) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in method.named_parameters()}


def test_training_moves_everything_and_tuning_the_classifier_alone() -> None:
    trainer, before = make_trainer(), {}
    method = after_first_task(trainer, balanced_tuning=SHORT)

    def note(phase: Phase) -> None:
        before[phase.name] = weights(method)

    learn(method, make_task(1), trainer, note)
    after = {"train": before["tune"], "tune": weights(method)}
    for phase, names in (
        ("train", set(before["train"])),
        ("tune", {"network.classifier.weight", "network.classifier.bias"}),
    ):
        moved = {
            name for name, old in before[phase].items() if not torch.equal(old, after[phase][name])
        }
        assert moved == names


@pytest.mark.parametrize("exact_view_ratio", [0.0, 1.0])
def test_tuning_shows_every_class_equally_often_and_completions_whole(
    exact_view_ratio: float,
) -> None:
    trainer = make_trainer()
    schedule = SHORT.model_copy(update={"epochs": 2})
    method = after_first_task(
        trainer, balanced_tuning=schedule, exact_view_ratio=exact_view_ratio, budget="1images/class"
    )
    method.begin_task(make_task(1), trainer.reader)
    *_, tune = method.phases(make_task(1), trainer.reader)
    assert tune.name == "tune"
    batches = batches_of(tune)
    counts = torch.cat([batch.labels for batch in batches]).bincount()
    assert counts.tolist() == [9, 9, 9, 9]  # 2 x (12 new and 6 replayed) images
    known = [batch.is_known for batch in batches if batch.is_known is not None]
    assert all(bool(grid.all()) for grid in known)


def test_alignment_makes_the_mean_row_lengths_of_old_and_new_classes_equal() -> None:
    trainer = make_trainer()
    method = after_first_task(trainer, align_weights=True)
    learn(method, make_task(1), trainer)
    lengths = method.network.classifier.weight.detach().norm(dim=1)
    torch.testing.assert_close(lengths[:2].mean(), lengths[2:].mean())
    other = after_first_task(trainer)
    learn(other, make_task(1), trainer)
    lengths = other.network.classifier.weight.detach().norm(dim=1)
    assert abs(float(lengths[:2].mean() / lengths[2:].mean()) - 1) > 0.05


def unmasked_steps(method: BiMAE, num_steps: int) -> list[int]:
    """The steps of a phase that classify and do nothing else."""
    batches = [make_batch(1, step=step, num_steps=num_steps) for step in range(num_steps)]
    return [batch.step for batch in batches if set(method.loss(batch)) == {"classify"}]


@pytest.mark.parametrize(
    ("placement", "ratio", "num_steps", "steps"),
    [
        ("end", 0.3, 10, [7, 8, 9]),
        ("spread", 0.3, 10, [3, 6, 9]),
        ("end", 0.7, 10, [3, 4, 5, 6, 7, 8, 9]),  # in binary arithmetic one less
        ("end", 0.0, 10, []),
        ("spread", 0.0, 10, []),
        ("end", 1.0, 4, [0, 1, 2, 3]),
        ("spread", 1.0, 4, [0, 1, 2, 3]),
    ],
)
def test_unmasked_steps_come_at_the_end_or_spread_evenly(
    placement: str, ratio: float, num_steps: int, steps: list[int]
) -> None:
    method = make_method(num_classes=1, unmasked_ratio=ratio, unmasked_placement=placement)
    assert unmasked_steps(method, num_steps) == steps


def test_unmasked_steps_are_counted_in_decimals_and_evenly_apart() -> None:
    method = make_method(num_classes=1, unmasked_ratio=0.29, unmasked_placement="spread")
    found = unmasked_steps(method, 100)
    assert len(found) == 29  # in binary arithmetic one less
    assert {later - earlier for earlier, later in pairwise(found)} == {3, 4}


def test_an_unmasked_step_classifies_what_prediction_sees() -> None:
    method, batch = make_method(num_classes=3, unmasked_ratio=1.0), make_batch()
    expected = nn.functional.cross_entropy(method.predict(batch.views), batch.labels)
    torch.testing.assert_close(method.loss(batch)["classify"], 0.01 * expected)


# ------------------------------------------------------------------------------------ wrong choices


@pytest.mark.parametrize(
    ("codec", "options", "message"),
    [
        (
            PatchesConfig(patch_size=8),
            {},
            "memory.codec.patch_size and method.network.patch_size must be equal; got 8 and 4",
        ),
        (
            PATCHES,
            {"exact_view_ratio": 0.5, "mask_ratio": 0.5},
            "memory.codec.mask_ratio must not exceed method.mask_ratio; got 0.75 and 0.5",
        ),
        (
            PATCHES,
            {"generate_replay": False, "mask_ratio": 0.5},
            "memory.codec.mask_ratio must not exceed method.mask_ratio; got 0.75 and 0.5",
        ),
        (
            PATCHES,
            {"fine_mask_ratio": 0.95},
            "method.fine_mask_ratio must leave at least one of 16 patches visible; got 0.95",
        ),
        (
            PATCHES,
            {"network": NETWORK.model_copy(update={"head_width": 5})},
            "method.network: width must be a multiple of head_width; got 16 and 5",
        ),
    ],
)
def test_a_choice_that_cannot_work_is_refused_in_one_sentence(
    codec: PatchesConfig, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        make_method(codec, **options)


def test_completions_alone_may_show_more_than_was_stored() -> None:
    method = make_method(PATCHES, mask_ratio=0.5)
    assert method.config.mask_ratio < PATCHES.mask_ratio


def test_a_patch_size_that_does_not_divide_the_image_is_refused() -> None:
    config = BiMAEConfig(first=SHORT, network=NETWORK)
    with pytest.raises(InputError, match=r"method\.network: patch_size must divide .* got 4"):
        BiMAE(config, MethodContext((18, 16, 3), (2,), None))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"reconstruction": "off"}, "needs a decoder that learns"),
        ({"generate_replay": False, "unmasked_ratio": 0.5}, "can be shown whole"),
        ({"generate_replay": False, "balanced_tuning": SHORT}, "can be shown whole"),
    ],
)
def test_choices_that_would_replay_nonsense_are_refused(
    options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        make_method(**options)


@pytest.mark.parametrize("options", [{"exact_view_ratio": 0.5}, {"generate_replay": False}])
def test_options_about_partial_exemplars_need_partial_exemplars(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"memory\.codec=patches"):
        make_method(RawConfig(), **options)


def test_unmasked_steps_show_and_crop_every_exemplar_whole() -> None:
    method = after_first_task(
        make_trainer(), exact_view_ratio=1.0, unmasked_ratio=0.5, unmasked_placement="end"
    )
    task = make_task(1)
    method.begin_task(task, make_trainer().reader)
    batches = batches_of(next(method.phases(task, make_trainer().reader)))
    half = len(batches) // 2
    for batch in batches:
        assert batch.is_known is not None
        is_partial = ~batch.is_known.flatten(1).all(dim=1)
        expected = batch.is_replay if batch.step < len(batches) - half else is_partial & False
        assert torch.equal(is_partial, expected)


class OneEpoch:
    """A pace for which one epoch is enough."""

    def epochs(self, report: StepReport) -> int:
        return 1


@pytest.mark.parametrize(("refresh", "expected"), [(None, {0}), (1, {0, 1, 2})])
def test_a_pace_is_asked_where_a_phase_has_all_epochs(
    refresh: int | None, expected: set[int]
) -> None:
    """Or `remnant learn --minutes` would not end in time; parts of a schedule stay as they are."""
    trainer, three = make_trainer(), SHORT.model_copy(update={"epochs": 3})
    method = make_method(first=three, refresh_every_epochs=refresh)
    learn(method, make_task(0), trainer)
    trainer.pace = OneEpoch()
    log = learn(method, make_task(1), trainer)
    assert {report.epoch for report in log.reports} == expected
