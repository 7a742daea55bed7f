from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from remnant.errors import InputError
from remnant.training import processes as module
from remnant.training.processes import LostProcessError, Processes, TrainingConfig, as_launched
from tests.support.small_bimae import CONV, make_method
from tests.support.small_residual import make_residual

MASKED_CONV = {"network": CONV, "view": "full", "side_ratio": 0.5, "has_detail_branch": False}


class FakeProcesses(Processes):
    """Rank 0 of two processes; `other` is what rank 1 contributes."""

    def __init__(self, other: Tensor) -> None:
        self._other = other

    count = 2
    rank = 0
    device = torch.device("cpu")

    def gather(self, rows: Tensor) -> Tensor:
        return torch.cat([rows, self._other])

    def _sum(self, value: Tensor) -> Tensor:
        return value + self._other


def encode_terms(text: str) -> Tensor:
    return torch.tensor(list(text.encode().ljust(module._TERMS_BYTES)), dtype=torch.uint8)[None]


class OnGpus(FakeProcesses):
    device = torch.device("cuda")


class Stays(nn.Sequential):
    """A network that says it has moved, on machines without a GPU."""

    may_skip_passes = False

    def to(self, *_: object, **__: object) -> Stays:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self


@pytest.mark.parametrize("may_skip_passes", [False, True])
def test_norms_wait_for_other_gpus_only_if_all_of_them_come(may_skip_passes: bool) -> None:
    network = Stays(nn.Conv2d(3, 4, 1), nn.Sequential(nn.BatchNorm2d(4)))
    network.may_skip_passes = may_skip_passes
    OnGpus(torch.zeros(1)).prepare(network)
    assert isinstance(network[1][0], nn.SyncBatchNorm) != may_skip_passes


def test_methods_whose_processes_may_skip_a_pass_say_so() -> None:
    windows = {"view": "window", "unmasked_ratio": 0.5, "reconstruction": "off"}
    windows |= {"has_detail_branch": False}
    skipping = [make_residual("gem"), make_residual("a-gem"), make_method("raw", **MASKED_CONV)]
    redrawing = {"side_ratio": 1.0, "has_detail_branch": True, "decoded_ratio": 0.5}
    skipping.append(make_method("raw", **MASKED_CONV | redrawing))
    together = [make_residual("er"), make_method(), make_method("raw", network=CONV, **windows)]
    together.append(make_method("raw", **MASKED_CONV | redrawing | {"decoded_ratio": 1.0}))
    together.append(
        make_method("raw", **MASKED_CONV | {"side_ratio": 0.0, "reconstruction": "off"})
    )
    assert [method.may_skip_passes for method in skipping] == [True] * 4
    assert not any(method.may_skip_passes for method in together)


def test_a_single_process_needs_no_communication() -> None:
    alone = Processes(TrainingConfig(accelerator="cpu", threads=1))
    assert (alone.count, alone.rank, alone.is_first, alone.threads) == (1, 0, True, 1)
    assert alone.add_terms({"a": 1.0}) == {"a": 1.0}
    rows = torch.arange(6).view(3, 2)
    assert torch.equal(alone.gather(rows), rows)
    parameter = nn.Parameter(torch.ones(2))
    alone.add_gradients([parameter])
    assert parameter.grad is None
    alone.check_same("ab" * 32, "memory")
    alone.barrier()


def test_terms_are_summed_by_name_and_may_be_missing_in_a_process() -> None:
    first = FakeProcesses(encode_terms('{"classify": 0.5, "distill": 2.0}'))
    assert first.add_terms({"classify": 1.25}) == {"classify": 1.75, "distill": 2.0}
    assert FakeProcesses(encode_terms("{}")).add_terms({"classify": 1.25}) == {"classify": 1.25}


def test_a_non_finite_term_makes_the_sum_non_finite() -> None:
    total = FakeProcesses(encode_terms('{"a": NaN}')).add_terms({"a": 1.0})["a"]
    assert total != total
    assert FakeProcesses(encode_terms('{"a": 1}')).add_terms({"a": float("inf")})["a"] == float(
        "inf"
    )


def test_gradients_are_summed_and_missing_ones_stay_missing() -> None:
    here, there, nowhere = (nn.Parameter(torch.zeros(2)) for _ in range(3))
    here.grad = torch.tensor([1.0, 2.0])
    other = torch.tensor([1.0, 1.0, 0.0, 10.0, 20.0, 5.0, 6.0, 0.0, 0.0])  # flags, then gradients
    FakeProcesses(other).add_gradients([here, there, nowhere])
    assert here.grad.tolist() == [11.0, 22.0]
    assert there.grad is not None
    assert there.grad.tolist() == [5.0, 6.0]
    assert nowhere.grad is None


def test_running_statistics_are_averaged_and_counters_are_not() -> None:
    norm = nn.BatchNorm1d(2)
    FakeProcesses(torch.tensor([4.0, 6.0, 3.0, 5.0])).average_statistics(norm)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.running_mean.tolist() == [2.0, 3.0]
    assert norm.running_var.tolist() == [2.0, 3.0]
    assert norm.num_batches_tracked is not None
    assert int(norm.num_batches_tracked) == 0


def test_statistics_that_are_not_tracked_are_not_averaged() -> None:
    norm = nn.BatchNorm1d(2)
    norm.track_running_stats = False
    FakeProcesses(torch.tensor([4.0, 6.0, 3.0, 5.0])).average_statistics(norm)
    assert norm.running_mean is not None
    assert norm.running_mean.tolist() == [0.0, 0.0]


def test_different_digests_raise() -> None:
    with pytest.raises(RuntimeError, match="disagree on the memory"):
        FakeProcesses(torch.zeros(1, 2, dtype=torch.uint8)).check_same("0001", "memory")


def test_that_nobody_answers_any_more_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = Processes(TrainingConfig(accelerator="cpu", threads=1))

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("[../third_party/gloo/pair.cc:534] Connection closed by peer")

    for name in ("barrier", "all_gather", "all_reduce"):
        monkeypatch.setattr(alone._fabric, name, fail)
    monkeypatch.setattr(Processes, "count", 2)
    rows = torch.zeros(1)
    for call in (alone.barrier, lambda: alone.gather(rows), lambda: alone._sum(rows)):
        with pytest.raises(LostProcessError, match="another process of this run has ended"):
            call()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_a_wrong_number_of_launched_processes_is_an_input_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="it started 2, not 1"):
        Processes(TrainingConfig(accelerator="cpu"))


@pytest.mark.parametrize(
    ("given", "devices", "num_nodes"),
    [({}, 2, 3), ({"devices": 6}, 6, 1), ({"devices": 2, "num_nodes": 3}, 2, 3)],
)
def test_processes_that_torchrun_started_are_used_unless_some_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, int], devices: int, num_nodes: int
) -> None:
    assert as_launched(TrainingConfig.parse(given)) == TrainingConfig.parse(given)
    for name, value in (
        ("TORCHELASTIC_RUN_ID", "x"),
        ("RANK", "0"),
        ("WORLD_SIZE", "6"),
        ("LOCAL_WORLD_SIZE", "2"),
    ):
        monkeypatch.setenv(name, value)
    config = as_launched(TrainingConfig.parse(given))
    assert (config.devices, config.num_nodes) == (devices, num_nodes)


def test_a_missing_accelerator_is_an_input_error() -> None:
    with pytest.raises(InputError, match="needs a device that torch cannot find"):
        Processes(TrainingConfig(accelerator="cuda"))


def test_too_many_devices_are_an_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InputError, match="at most 2, the number of cuda devices here; got 3"):
        Processes(TrainingConfig(accelerator="cuda", devices=3))
