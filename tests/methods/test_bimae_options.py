from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.errors import InputError
from remnant.memory import PatchesConfig, RawConfig
from remnant.methods.base import MethodContext
from remnant.methods.bimae import BilateralConfig, BiMAE, BiMAEConfig
from tests.support.small_bimae import (
    NETWORK,
    PATCHES,
    SHORT,
    learn,
    make_batch,
    make_method,
    make_task,
    make_trainer,
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
        "decoded_ratio": 1.0,
        "codec_view_ratio": 0.0,
        "label_smoothing": 0.0,
        "average_decay": 0.0,
        "logit_adjustment": 0.0,
    }
    assert {name: getattr(config, name) for name in beyond} == beyond
    assert SHORT.sampling == "union"


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
    assert make_method(PATCHES, mask_ratio=0.5).config.mask_ratio == 0.5


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
