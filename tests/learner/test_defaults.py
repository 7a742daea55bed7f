from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remnant.errors import InputError
from remnant.images import ArrayImages
from remnant.learner import Learner
from remnant.learner.defaults import (
    choose_batch_size,
    choose_epochs,
    choose_image_size,
    choose_patch_size,
    choose_settings,
    describe,
    measure_colours,
    schedule_update,
    training_of,
)
from remnant.methods import METHODS, build_method
from remnant.methods.er import ERConfig
from remnant.phases import OptimizerConfig, Schedule
from remnant.training.devices import Accelerator
from tests.support.small_learner import tiny_learner

GREY = ((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def settings_of(image_size: int = 32, device: Accelerator = "cpu", **parameters: Any) -> Any:
    return choose_settings(Learner(**parameters).get_params(), image_size, *GREY, device)


# ---------------------------------------------------------------------------------- sizes and steps


@pytest.mark.parametrize(
    ("side", "on_cpu", "on_cuda"),
    [(8, 32, 32), (40, 32, 32), (41, 64, 64), (96, 64, 64), (97, 128, 128), (4000, 128, 224)],
)
def test_the_size_follows_the_images_and_the_device(side: int, on_cpu: int, on_cuda: int) -> None:
    assert choose_image_size(side, "cpu") == on_cpu
    assert choose_image_size(side, "cuda") == on_cuda


@pytest.mark.parametrize(
    ("size", "on_cpu", "on_cuda"),
    [(32, 4, 4), (64, 8, 8), (128, 16, 16), (224, 28, 16), (28, 4, 4), (8, 1, 1), (20, 2, 2)],
)
def test_patches_fill_the_image(size: int, on_cpu: int, on_cuda: int) -> None:
    assert choose_patch_size(size, "cpu") == on_cpu
    assert choose_patch_size(size, "cuda") == on_cuda


def test_a_size_that_cannot_be_cut_is_told() -> None:
    with pytest.raises(InputError, match=r"31 cannot\. Take a multiple of 8"):
        choose_patch_size(31, "cpu")


@given(st.integers(1, 10**7), st.sampled_from(["cpu", "cuda", "mps"]))
def test_small_data_get_more_epochs_and_every_update_enough_steps(
    num_images: int, device: Accelerator
) -> None:
    batch_size = choose_batch_size(num_images, device)
    epochs = choose_epochs(num_images, batch_size, device)
    assert epochs >= choose_epochs(2 * num_images, batch_size, device) >= 10
    assert epochs * -(-num_images // batch_size) >= 350


def test_colours_are_measured_and_one_colour_has_some_deviation() -> None:
    images = torch.zeros(4, 8, 8, 3, dtype=torch.uint8)
    images[2:, :, :, 0] = 255
    mean, std = measure_colours(ArrayImages(images))
    assert mean == (0.5, 0.0, 0.0)
    assert std == (0.5, 0.0039, 0.0039)


# ----------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize("name", [name for name in METHODS if name != "pixels"])
@pytest.mark.parametrize("image_size", [32, 64, 128])
def test_every_method_has_settings_that_fit_it(name: str, image_size: int) -> None:
    settings = settings_of(image_size, method=name)
    assert (settings.memory is not None) == METHODS[name].uses_memory
    assert settings.method.first.steps_from == "all"
    assert name in describe(settings)
    with torch.device("meta"):
        build_method(settings, settings.image_shape, (2,))


def test_bilateral_mae_gets_its_best_options() -> None:
    settings = settings_of()
    method = settings.method.model_dump()
    assert method["distill_weight"] > 0
    assert method["unmasked_ratio"] > 0
    assert method["first"]["sampling"] == "balanced"
    assert method["network"]["patch_size"] == 4
    assert (method["network"]["width"], method["network"]["mlp_width"]) == (128, 512)
    assert settings_of(device="cuda").method.network.width == 384


@pytest.mark.parametrize("image_size", [32, 64, 128])
def test_exemplars_are_whole_images_in_the_form_that_suits_their_size(image_size: int) -> None:
    settings = settings_of(image_size)
    assert settings.memory.codec.name == ("transform" if image_size <= 64 else "webp")
    assert settings.method.exact_view_ratio == 0


@pytest.mark.parametrize("codec", ["patches", "coded-patches"])
def test_exemplars_of_patches_are_shown_by_them_too(codec: str) -> None:
    settings = settings_of(64, codec=codec)
    assert settings.method.exact_view_ratio > 0
    assert settings.memory.codec.patch_size == settings.method.network.patch_size == 8


def test_codec_and_width_among_the_options_are_as_good_as_parameters() -> None:
    options = {"memory.codec": "patches", "method.network.width": 64}
    assert settings_of(64, options=options) == settings_of(64, codec="patches", width=64)


def test_everything_chosen_can_be_set() -> None:
    settings = settings_of(
        64,
        budget="1MiB",
        codec={"name": "patches", "mask_ratio": 0.5},
        width=32,
        augment="crop",
        seed=7,
        options={"method.distill_weight": 3, "method.mask_ratio": 0.5, "augment.padding": 1},
    )
    assert settings.memory.budget == "1MiB"
    assert (settings.memory.codec.mask_ratio, settings.memory.codec.patch_size) == (0.5, 8)
    assert (settings.method.network.width, settings.method.network.head_width) == (32, 8)
    assert settings.method.distill_weight == 3
    assert (settings.augment.train, settings.augment.padding) == ("crop", 1)
    assert settings.seed == 7


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"method": "bimea"}, "method must be one of .* Did you mean bimae"),
        ({"budget": "much"}, r"memory\.budget must be a positive amount"),
        ({"codec": "jpg"}, r"memory\.codec must be one of .* Did you mean jpeg"),
        ({"width": 100}, "width must be a multiple of 16; got 100"),
        ({"method": "er", "width": 64}, "er has no width to set"),
        ({"augment": "spin"}, r"augment\.train must be one of"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"options": {"method.distil_weight": 1}}, "Did you mean method.distill_weight"),
    ],
)
def test_what_cannot_be_is_told(parameters: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        settings_of(**parameters)


def test_how_training_is_carried_out_can_be_set_too() -> None:
    learner = tiny_learner(options={"training.checkpoint_every_steps": 7}, threads=3)
    training = training_of(learner.get_params())
    assert (training.checkpoint_every_steps, training.threads) == (7, 3)
    for parameters, told in (
        ({"accelerator": "gpu"}, "accelerator must be one of auto, cpu, cuda, mps; got gpu"),
        ({"options": {"training.devices": 2}}, "one process"),
    ):
        with pytest.raises(InputError, match=told):
            training_of(tiny_learner(**parameters).get_params())


# ---------------------------------------------------------------------------------------- schedules


def test_a_schedule_is_stretched_with_its_warm_up_and_milestones() -> None:
    optimizer = OptimizerConfig(lr=0.1, schedule="steps", milestones=(10, 20), warmup_epochs=5)
    method = ERConfig(first=Schedule(epochs=40, batch_size=8, optimizer=optimizer))
    parameters = Learner(epochs=80, batch_size=16, learning_rate=0.5).get_params()
    first = schedule_update(method, parameters, 100, "cpu").first
    assert (first.epochs, first.batch_size) == (80, 16)
    assert (first.optimizer.milestones, first.optimizer.warmup_epochs) == ((20, 40), 10)
    assert first.optimizer.lr == 0.5


@pytest.mark.parametrize("name", ["epochs", "batch_size"])
@pytest.mark.parametrize("value", [0, -3, 1.5, "many"])
def test_a_schedule_that_cannot_be_is_told(name: str, value: Any) -> None:
    optimizer = OptimizerConfig(lr=0.1)
    method = ERConfig(first=Schedule(epochs=40, batch_size=8, optimizer=optimizer))
    with pytest.raises(InputError, match=f"{name} must be"):
        schedule_update(method, Learner(**{name: value}).get_params(), 100, "cpu")
