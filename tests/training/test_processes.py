from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from remnant.errors import InputError
from remnant.training import processes as module
from remnant.training.processes import Processes, TrainingConfig


class FakeProcesses(Processes):
    """The first of two processes; what the other one brings is given."""

    def __init__(self, other: Tensor) -> None:
        self._other = other

    count = 2
    rank = 0
    device = torch.device("cpu")

    def gather(self, rows: Tensor) -> Tensor:
        return torch.cat([rows, self._other])

    def _sum(self, value: Tensor) -> Tensor:
        return value + self._other


def terms_as_sent(text: str) -> Tensor:
    return torch.tensor(list(text.encode().ljust(module._TERMS_BYTES)), dtype=torch.uint8)[None]


def test_one_process_agrees_with_itself() -> None:
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


def test_terms_are_added_by_name_even_where_a_process_lacks_one() -> None:
    first = FakeProcesses(terms_as_sent('{"classify": 0.5, "distill": 2.0}'))
    assert first.add_terms({"classify": 1.25}) == {"classify": 1.75, "distill": 2.0}
    assert FakeProcesses(terms_as_sent("{}")).add_terms({"classify": 1.25}) == {"classify": 1.25}


def test_a_term_that_is_not_finite_anywhere_is_not_finite_in_the_sum() -> None:
    total = FakeProcesses(terms_as_sent('{"a": NaN}')).add_terms({"a": 1.0})["a"]
    assert total != total
    assert FakeProcesses(terms_as_sent('{"a": 1}')).add_terms({"a": float("inf")})["a"] == float(
        "inf"
    )


def test_gradients_are_added_and_parameters_without_any_stay_without() -> None:
    here, there, nowhere = (nn.Parameter(torch.zeros(2)) for _ in range(3))
    here.grad = torch.tensor([1.0, 2.0])
    other = torch.tensor([1.0, 1.0, 0.0, 10.0, 20.0, 5.0, 6.0, 0.0, 0.0])  # flags, then gradients
    FakeProcesses(other).add_gradients([here, there, nowhere])
    assert here.grad.tolist() == [11.0, 22.0]
    assert there.grad is not None
    assert there.grad.tolist() == [5.0, 6.0]
    assert nowhere.grad is None


def test_running_statistics_are_averaged_and_counters_left_alone() -> None:
    norm = nn.BatchNorm1d(2)
    FakeProcesses(torch.tensor([4.0, 6.0, 3.0, 5.0])).average_statistics(norm)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.running_mean.tolist() == [2.0, 3.0]
    assert norm.running_var.tolist() == [2.0, 3.0]
    assert norm.num_batches_tracked is not None
    assert int(norm.num_batches_tracked) == 0


def test_statistics_that_stand_still_are_not_averaged() -> None:
    norm = nn.BatchNorm1d(2)
    norm.track_running_stats = False
    FakeProcesses(torch.tensor([4.0, 6.0, 3.0, 5.0])).average_statistics(norm)
    assert norm.running_mean is not None
    assert norm.running_mean.tolist() == [0.0, 0.0]


def test_processes_that_hold_different_bytes_are_found_out() -> None:
    with pytest.raises(RuntimeError, match="disagree on the memory"):
        FakeProcesses(torch.zeros(1, 2, dtype=torch.uint8)).check_same("0001", "memory")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_a_launcher_with_another_number_of_processes_is_an_input_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="2 processes were started, but the run is to use 1"):
        Processes(TrainingConfig(accelerator="cpu"))


def test_an_accelerator_that_is_missing_is_an_input_error() -> None:
    with pytest.raises(InputError, match="needs a device that torch cannot find"):
        Processes(TrainingConfig(accelerator="cuda"))


def test_more_devices_than_there_are_is_an_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InputError, match=r"at most the 2 that cuda has here; got 3"):
        Processes(TrainingConfig(accelerator="cuda", devices=3))
