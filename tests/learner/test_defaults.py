from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remnant.errors import InputError
from remnant.learner.defaults import (
    choose_batch_size,
    choose_config,
    choose_epochs,
    choose_training,
    describe,
    schedule_update,
)
from remnant.learner.encoder_choice import choose_encoder
from remnant.learner.learner_state import LearnerParameters
from remnant.learner.network_sizes import choose_image_size, choose_patch_size
from remnant.memory import TransformConfig
from remnant.methods import METHODS, build_method
from remnant.methods.er import ERConfig
from remnant.phases import OptimizerConfig, Schedule
from remnant.recipes import load_recipe
from remnant.training.devices import Accelerator
from tests.support.plugin_methods import PLUGINS, Plugin

GREY = ((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def chosen(image_size: int = 32, device: Accelerator = "cpu", **parameters: Any) -> Any:
    given = LearnerParameters.of(parameters)
    choice = choose_encoder(given, shorter_side=32)
    settled = {"method": choice.method, "encoder": choice.encoder}
    return choose_config(given.model_copy(update=settled), image_size, *GREY, device)


# ---------------------------------------------------------------------------------- sizes and steps


@pytest.mark.parametrize(
    ("side", "on_cpu", "on_cuda"),
    [(8, 32, 32), (40, 32, 32), (41, 64, 64), (96, 64, 64), (97, 64, 128), (4000, 64, 224)],
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
    with pytest.raises(InputError, match=r"31 is not\. Take a multiple of 8"):
        choose_patch_size(31, "cpu")


@given(st.integers(1, 10**7), st.sampled_from(["cpu", "cuda", "mps"]))
def test_small_data_get_more_epochs_and_every_update_enough_steps(
    num_images: int, device: Accelerator
) -> None:
    batch_size = choose_batch_size(num_images, device)
    epochs = choose_epochs(num_images, batch_size, device)
    assert epochs >= choose_epochs(2 * num_images, batch_size, device) >= 10
    assert epochs * -(-num_images // batch_size) >= 350


# ----------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize("name", [name for name in METHODS if name != "pixels"])
@pytest.mark.parametrize("image_size", [32, 64, 128])
def test_every_method_has_settings_that_fit_it(name: str, image_size: int) -> None:
    settings = chosen(image_size, method=name)
    assert (settings.memory is not None) == METHODS[name].uses_memory
    assert settings.method.first.steps_from == "all"
    assert name in describe(settings)
    with torch.device("meta"):
        build_method(settings, settings.image_shape, (2,))


TRAINED = [
    name
    for name, method in METHODS.items()
    if method.trains and name != "pixels" and "encoder" not in method.Config.model_fields
]


@pytest.mark.parametrize(
    ("recipe", "parameters"),
    [(name, {"method": name}) for name in TRAINED]
    + [("bimae-patches", {"method": "bimae", "codec": "patches"})],
)
def test_every_method_has_the_options_that_were_best_at_mini_scale(
    recipe: str, parameters: dict[str, Any]
) -> None:
    best = load_recipe(f"cifar100-mini-{recipe}").method.model_dump()
    best["first"]["steps_from"] = "all"  # few new images do not make few steps
    found = chosen(**parameters).method.model_dump()
    if recipe == "bimae":
        found["network"]["width"] = best["network"]["width"]  # convolutions do not use it
        # Learners see whole images, whose steps all take the same time.
        whole = {"view": "full", "mask_ratio": 0.75, "unmasked_ratio": 0.0, "window_exemplars": 0}
        best |= whole
    assert found == best


def test_networks_are_wider_on_a_gpu() -> None:
    of_patches = [chosen(device=device, codec="patches") for device in ("cpu", "cuda")]
    sizes = [one.method.network for one in of_patches]
    assert [(size.width, size.mlp_width) for size in sizes] == [(128, 512), (384, 1536)]
    convolutions = [chosen(device=device).method.network.channels for device in ("cpu", "cuda")]
    assert convolutions == [(48, 160, 192), (96, 320, 384)]


@pytest.mark.parametrize(
    ("size", "num_stages"), [(8, 1), (20, 2), (28, 2), (32, 3), (64, 4), (128, 5), (224, 5)]
)
def test_larger_images_pass_through_more_stages(size: int, num_stages: int) -> None:
    network = chosen(size).method.network
    assert len(network.channels) == num_stages
    assert network.patch_size == 2**num_stages
    with torch.device("meta"):
        settings = chosen(size)
        build_method(settings, settings.image_shape, (2,))


def test_an_odd_size_is_told() -> None:
    with pytest.raises(InputError, match=r"must be even and at least 8; got 31\. Take a multiple"):
        chosen(31)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_method_without_recipes_has_a_schedule_that_suits_its_network(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, plugin.name, plugin.method)
    found = chosen(64, method=plugin.name, options=plugin.options)
    assert found.method.first.optimizer.name == plugin.optimizer
    assert describe(found).startswith(f"{plugin.name}: images of 64 px")


def test_a_setting_that_a_method_needs_must_be_among_the_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plugin = PLUGINS[-1]
    monkeypatch.setitem(METHODS, plugin.name, plugin.method)
    with pytest.raises(InputError, match=r"^method\.strength must be given: with-neither"):
        chosen(method=plugin.name)


@pytest.mark.parametrize("image_size", [32, 64, 128])
def test_exemplars_are_whole_images_in_the_form_that_suits_their_size(image_size: int) -> None:
    settings = chosen(image_size)
    assert settings.memory.codec.name == ("transform" if image_size <= 64 else "webp")
    assert settings.method.exact_view_ratio == 0


@pytest.mark.parametrize("codec", ["patches", "coded-patches"])
def test_exemplars_of_patches_are_shown_by_them_too(codec: str) -> None:
    settings = chosen(64, codec=codec)
    assert settings.method.exact_view_ratio > 0
    assert settings.memory.codec.patch_size == settings.method.network.patch_size == 8


def test_codec_and_width_among_the_options_are_as_good_as_parameters() -> None:
    options = {"memory.codec": "patches", "method.network.width": 64}
    assert chosen(64, options=options) == chosen(64, codec="patches", width=64)


def test_everything_chosen_can_be_set() -> None:
    settings = chosen(
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
        ({"method": "er", "encoder": "efficientnet-lite0"}, "er trains a network of its own"),
        ({"method": "ncm", "encoder": "none"}, "ncm needs an encoder"),
        ({"encoder": "efficientnet"}, "encoder must be .* Did you mean efficientnet-lite0"),
        ({"encoder": "gone.safetensors"}, "gone.safetensors does not exist"),
        ({"budget": "much"}, r"memory\.budget must be a positive amount"),
        ({"codec": "jpg"}, r"memory\.codec must be one of .* Did you mean jpeg"),
        ({"width": 100}, "width must be a multiple of 16, at least 16; got 100"),
        ({"method": "er", "width": 64}, "network of er has no width"),
        ({"augment": "spin"}, r"augment\.train must be one of"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"options": {"method.distil_weight": 1}}, "Did you mean method.distill_weight"),
    ],
)
def test_what_cannot_be_is_told(parameters: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        chosen(**parameters)


def test_how_training_is_carried_out_can_be_set_too() -> None:
    options = {"training.checkpoint_every_steps": 7}
    training = choose_training(LearnerParameters(options=options, threads=3))
    assert (training.checkpoint_every_steps, training.threads) == (7, 3)
    for parameters, told in (
        ({"accelerator": "gpu"}, "accelerator must be one of auto, cpu, cuda, mps; got gpu"),
        ({"options": {"training.devices": 2}}, "one process"),
        ({"options": {"training.thread": 2}}, "Did you mean training.threads"),
    ):
        with pytest.raises(InputError, match=told):
            choose_training(LearnerParameters.of(parameters))


# ---------------------------------------------------------------------------------------- schedules


def test_a_schedule_is_stretched_with_its_warm_up_and_milestones() -> None:
    optimizer = OptimizerConfig(lr=0.1, schedule="steps", milestones=(10, 20), warmup_epochs=5)
    method = ERConfig(first=Schedule(epochs=40, batch_size=8, optimizer=optimizer))
    parameters = LearnerParameters(epochs=80, batch_size=16, learning_rate=0.5)
    first = schedule_update(method, parameters, 100, "cpu").first
    assert (first.epochs, first.batch_size) == (80, 16)
    assert (first.optimizer.milestones, first.optimizer.warmup_epochs) == ((20, 40), 10)
    assert first.optimizer.lr == 0.5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("epochs", 1.5),
        ("batch_size", "many"),
        ("learning_rate", -1),
        ("image_size", 4),
        ("threads", 0),
    ],
)
def test_a_parameter_that_cannot_be_used_is_named(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"^{name} must be"):
        LearnerParameters.of({name: value})


@pytest.mark.parametrize(("budget", "quality"), [("1.5KiB/class", 20), ("60KiB/class", 50)])
def test_small_images_are_stored_as_coarsely_as_the_budget_of_a_class_asks_for(
    budget: str, quality: int
) -> None:
    assert chosen(budget=budget).memory.codec == TransformConfig(quality=quality)
    by_option = chosen(options={"memory.budget": budget}).memory
    assert (by_option.budget, by_option.codec) == (budget, TransformConfig(quality=quality))


def test_a_budget_for_all_classes_leaves_the_quality_as_it_is() -> None:
    assert chosen(budget="20KiB").memory.codec == TransformConfig()
