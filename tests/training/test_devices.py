"""What is used of a machine; CUDA devices are described, not needed."""

from __future__ import annotations

import copy
import itertools
import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import nn

import remnant.runs.experiment as experiment_module
from benchmarks.kills import differences
from remnant.config import RunConfig
from remnant.data import DataConfig
from remnant.data.stream import StreamConfig
from remnant.errors import InputError
from remnant.memory import MemoryConfig
from remnant.methods import METHODS
from remnant.models.resnet import resnet_cifar
from remnant.models.vit import Block
from remnant.runs.environment import write_environment
from remnant.runs.experiment import resume, run
from remnant.training import devices as module
from remnant.training.batches import Preprocessing
from remnant.training.devices import (
    Hardware,
    choose_acceleration,
    compiled_blocks,
    fastest_precision,
    find_hardware,
)
from remnant.training.processes import Processes, TrainingConfig
from remnant.training.trainer import Trainer
from remnant.views.augment import AugmentConfig
from tests.support.small_bimae import learn, make_method, make_task
from tests.support.worlds import MEAN, STD, load_once

CPU, AMPERE, TURING, PASCAL = (
    Hardware("cpu"),
    Hardware("cuda", (8, 0)),
    Hardware("cuda", (7, 5)),
    Hardware("cuda", (6, 1)),
)
# Torch reads `.grad` of non-leaf tensors while it traces, and hides the warning only from users.
quiet = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")


# -------------------------------------------------------------------------------------- the choice


@pytest.mark.parametrize(
    ("hardware", "precision", "compiles", "is_cuda"),
    [
        (AMPERE, "bf16-mixed", True, True),
        (TURING, "32-true", True, True),  # bf16 is emulated there
        (PASCAL, "32-true", False, True),
        (CPU, "32-true", False, False),
        (Hardware("mps"), "32-true", False, False),
    ],
)
def test_auto_turns_on_what_helps_on_each_kind_of_hardware(
    hardware: Hardware, precision: str, compiles: bool, is_cuda: bool
) -> None:
    chosen = choose_acceleration(hardware, "auto", "auto", tf32=False)
    assert (chosen.precision, chosen.compiled_blocks) == (precision, compiles)
    assert (chosen.pinned_memory, chosen.fused_optimizers) == (is_cuda, is_cuda)
    assert not chosen.tf32


@pytest.mark.parametrize("hardware", [CPU, AMPERE])
@pytest.mark.parametrize("compiling", ["on", "off"])
def test_explicit_settings_are_followed(
    hardware: Hardware, compiling: Literal["on", "off"]
) -> None:
    chosen = choose_acceleration(hardware, "32-true", compiling, tf32=False)
    assert (chosen.precision, chosen.compiled_blocks) == ("32-true", compiling == "on")


@pytest.mark.parametrize(("hardware", "is_there"), [(AMPERE, True), (TURING, False), (CPU, False)])
def test_tf32_needs_the_setting_and_the_hardware(hardware: Hardware, is_there: bool) -> None:
    assert choose_acceleration(hardware, "auto", "auto", tf32=True).tf32 == is_there


@pytest.mark.parametrize(
    ("seconds", "expected"), [((3, 1), "bf16-mixed"), ((1, 1), "32-true"), ((1, 17), "32-true")]
)
def test_the_faster_precision_is_the_one_that_takes_less_time(
    seconds: tuple[int, int], expected: str
) -> None:
    """Each step asks the clock before and after, float32 and bf16 in turn."""
    ticks = itertools.accumulate(itertools.cycle((0, seconds[0], 0, seconds[1])))
    precision, gain = fastest_precision(lambda: float(next(ticks)))
    assert (precision, gain) == (expected, seconds[0] / seconds[1])


def test_float32_is_full_precision_by_default() -> None:
    torch.backends.cudnn.allow_tf32 = True  # as torch has it by default
    Processes(TrainingConfig(accelerator="cpu", threads=1))
    assert not torch.backends.cudnn.allow_tf32
    assert torch.get_float32_matmul_precision() == "highest"


def pretend_cuda(monkeypatch: pytest.MonkeyPatch, *capabilities: tuple[int, int]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(capabilities))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(capabilities))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capabilities[index])


def test_the_least_capable_device_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_cuda(monkeypatch, (9, 0), (7, 0))
    assert find_hardware("auto", 2) == Hardware("cuda", (7, 0))
    assert find_hardware("auto", 1) == Hardware("cuda", (9, 0))
    assert find_hardware("cpu", 2) == CPU
    with pytest.raises(InputError, match="at most 2, the number of cuda devices here; got 3"):
        find_hardware("cuda", 3)


def test_environment_json_records_what_is_used(
    tmp_path: Path,
) -> None:
    write_environment(tmp_path, TrainingConfig(accelerator="cpu", compile="on"))
    assert json.loads((tmp_path / "environment.json").read_text())["acceleration"] == {
        "accelerator": "cpu",
        "precision": "32-true",
        "tf32": False,
        "compiled_blocks": True,
        "pinned_memory": False,
        "fused_optimizers": False,
    }


# --------------------------------------------------------------------------------- compiled blocks


class Counter:
    """A compiler that returns its input and counts its calls."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, graph: torch.fx.GraphModule, _: Any) -> Any:
        self.count += 1
        return graph.forward


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter]:
    counter = Counter()
    monkeypatch.setattr(module, "_COMPILER", counter)
    yield counter
    torch.compiler.reset()


@quiet
@pytest.mark.slow
def test_blocks_share_code_and_each_shape_is_compiled_once(counter: Counter) -> None:
    network = nn.Sequential(*(Block(8, 4, 8) for _ in range(5))).requires_grad_(False)
    with compiled_blocks(network):
        for size in range(1, 10):  # more than torch allows by default
            network(torch.randn(size, 3, 8))
            assert counter.count == size
        network(torch.randn(1, 3, 8))
    assert counter.count == 9
    network(torch.randn(20, 3, 8))  # outside, nothing is compiled
    assert counter.count == 9


@quiet
def test_a_copy_of_a_compiled_network_is_independent(counter: Counter) -> None:
    network = nn.Sequential(Block(8, 4, 8))
    tokens = torch.randn(2, 3, 8)
    expected = network(tokens)
    with compiled_blocks(network):
        network(tokens)
        teacher = copy.deepcopy(network)
        for parameter in network.parameters():
            parameter.data.zero_()
        assert torch.equal(teacher(tokens), expected)
        assert torch.equal(network(tokens), tokens)  # only the residual paths remain


def test_the_networks_of_the_package_have_blocks() -> None:
    def names(network: nn.Module) -> list[str]:
        return [type(part).__name__ for part in network.modules()]

    assert names(make_method().network).count("Block") == 4  # two, the decoder's and the fusion
    assert names(resnet_cifar(8)).count("BasicBlock") == 3


def trainer_of(compiling: Literal["on", "off"]) -> Trainer:
    processes = Processes(TrainingConfig(accelerator="cpu", threads=1, compile=compiling))
    return Trainer(processes, Preprocessing(AugmentConfig(padding=2), MEAN, STD), 7)


@quiet
@pytest.mark.slow
def test_compiled_training_equals_eager_training_over_a_growing_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_COMPILER", "aot_eager")
    names, losses = [], []
    for compiling in ("off", "on"):
        torch.manual_seed(1)
        method, trainer = make_method(), trainer_of(compiling)
        logs = [learn(method, make_task(index), trainer) for index in range(2)]
        names.append(list(method.state_dict()))
        losses.append([report.loss for log in logs for report in log.reports])
    # Not the weights: Adam enlarges the rounding of gradients that are 0, as those of key biases.
    assert len(losses[0]) >= 4
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert names[0] == names[1]
    torch.compiler.reset()


class StopOnce:
    """Interrupts a run once, at a step of its second task."""

    def __init__(self) -> None:
        self.is_due = True

    def on_step(self, report: Any) -> None:
        if self.is_due and report.task == 1 and report.step == 4:
            self.is_due = False
            raise KeyboardInterrupt


@quiet
@pytest.mark.slow
def test_a_compiled_run_resumes_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_COMPILER", "aot_eager")
    monkeypatch.setattr(experiment_module, "load_dataset", load_once)
    optimizer = {"name": "sgd", "lr": 0.05}
    config = RunConfig(
        data=DataConfig(dataset="digits", images_per_class=16, image_size=16),
        stream=StreamConfig(num_classes=4, num_tasks=2),
        memory=MemoryConfig(budget="6images/class"),
        method=METHODS["er"].Config.model_validate(
            {
                "name": "er",
                "backbone": {"name": "resnet8"},
                "first": {"epochs": 2, "batch_size": 8, "optimizer": optimizer},
            }
        ),
        training=TrainingConfig(
            accelerator="cpu", threads=1, compile="on", checkpoint_every_steps=3, log_every_steps=1
        ),
    )
    run(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "broken", watchers=(StopOnce(),))
    resume(tmp_path / "broken")
    assert differences(tmp_path / "whole", tmp_path / "broken") == []
    torch.compiler.reset()


# --------------------------------------------------------------------------------------- allocator


FAULTS = """
import resource, sys, torch
from remnant.training.devices import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory() == (sys.argv[2] == "configured")
for _ in range(20):  # until a block fits between other allocations
    torch.ones(1 << 24)  # 64 MiB
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    torch.ones(1 << 24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = 5 * (1 << 26) // 4096
needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")


def count_faults(*arguments: str, **environment: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, *arguments],
        env={"PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@needs_glibc
def test_freed_memory_is_reused_without_page_faults() -> None:
    assert count_faults("keep", "configured") < PAGES // 100


@needs_glibc
def test_by_default_every_page_faults_again() -> None:
    assert count_faults("default", MALLOC_MMAP_THRESHOLD_="131072") > PAGES // 2


@needs_glibc
def test_malloc_settings_of_the_environment_take_precedence() -> None:
    assert count_faults("keep", "not configured", MALLOC_MMAP_MAX_="65536") > PAGES // 2
