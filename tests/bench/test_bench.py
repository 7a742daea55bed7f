from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from remnant.bench import pieces
from remnant.bench.literal import literal_loss
from remnant.bench.live_memory import LiveMemory, peak_bytes
from remnant.bench.overhead import Clock, overhead_fraction
from remnant.bench.stopwatch import measure
from remnant.memory import CODECS
from remnant.methods.base import MethodContext
from remnant.methods.bimae import BilateralConfig, BiMAE, BiMAEConfig
from remnant.planning.flops import count_flops, train_flops
from remnant.terminal.tables import bench_lines
from remnant.training.processes import Processes, TrainingConfig
from tests.support.small_bimae import SHAPE, make_batch, make_method


def test_the_literal_step_has_the_loss_of_the_fast_one() -> None:
    method = make_method(num_classes=3, reuse_main_as_x1=False)
    batch = make_batch()
    fine, coarse = batch.draw("fine mask", 2, 16).unbind(dim=1)
    noise = (batch.draw("mask", 16), coarse, fine)
    literal = literal_loss(method.network, batch.views, batch.labels, noise)
    fast = torch.stack(list(method.loss(batch).values())).sum()
    torch.testing.assert_close(fast, literal, rtol=1e-5, atol=1e-6)


def test_the_literal_step_does_more_arithmetic() -> None:
    method, batch = make_method(num_classes=3), make_batch(size=2)
    draw = torch.rand(3, 2, 16)
    noise = (draw[0], draw[1], draw[2])
    fast = train_flops(method, SHAPE, num_classes=3)
    slow = count_flops(
        lambda: literal_loss(method.network, batch.views, batch.labels, noise).backward()
    )
    assert slow / 2 > 1.1 * fast


def test_attention_is_counted() -> None:
    tokens = torch.zeros(1, 2, 5, 8)  # two heads of five tokens: two products of 5 x 5 x 8 each
    attend = torch.nn.functional.scaled_dot_product_attention
    assert count_flops(lambda: attend(tokens, tokens, tokens)) == 2 * 2 * (2 * 5 * 5 * 8)


def test_the_paper_step_is_within_its_arithmetic() -> None:
    config = BiMAEConfig.model_validate(
        {"network": BilateralConfig(), "first": make_method().config.first}
    )
    method = BiMAE(config, MethodContext((32, 32, 3), (10,), None))
    method.network.classifier.grow(10)
    assert 3.38e9 < train_flops(method, (32, 32, 3), num_classes=10) <= 3.45e9


class Hands:
    """A clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def move(self, seconds: float) -> None:
        self.now += seconds


def test_workloads_take_turns_and_the_second_run_of_each_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hands, order = Hands(monkeypatch), []
    lengths = iter([100, 1, 100, 7, 100, 3, 100, 8, 100, 2, 100, 9])

    def work(name: str) -> None:
        order.append(name)
        hands.move(next(lengths))

    seconds = measure({"a": lambda: work("a"), "b": lambda: work("b")}, repeats=3)
    assert order == ["a", "a", "b", "b"] * 3
    assert seconds == {"a": 2, "b": 8}


def test_a_clock_adds_up_only_timed_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    hands, clock = Hands(monkeypatch), Clock()
    timed = clock.timed(hands.move)
    timed(2)
    hands.move(50)
    timed(3)
    assert clock.seconds == 5


def test_overhead_is_a_fraction_measured_over_real_steps(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = BiMAEConfig.model_validate(
        {
            "network": {"width": 16, "depth": 2, "head_width": 8, "mlp_width": 16},
            "first": make_method().config.first,
        }
    )
    method = BiMAE(config, MethodContext((32, 32, 3), (10,), None))
    method.network.classifier.grow(10)
    before = method.network.classifier.weight.detach().clone()
    config = TrainingConfig(accelerator="cpu", threads=1)
    processes = Processes(config)
    share = overhead_fraction(method, processes, config, num_steps=2, checkpoint_seconds=0.0)
    assert 0 < share < 1
    endless = overhead_fraction(method, processes, config, num_steps=2, checkpoint_seconds=1e6)
    assert endless > 0.99  # a checkpoint counts
    assert not torch.equal(before, method.network.classifier.weight)  # the steps were real


_KILO = torch.zeros(256)  # 1,024 bytes


def test_live_memory_excludes_tensors_that_were_freed() -> None:
    with LiveMemory() as memory:
        first = _KILO + 1
        second = first + 1
        assert (memory.bytes, memory.peak_bytes) == (2048, 2048)
        del first
        third = second.view(2, 128).t()  # no memory of its own
        second += 1
        assert memory.bytes == 1024
        del second
        assert memory.bytes == 1024
        del third
        assert (memory.bytes, memory.peak_bytes) == (0, 2048)


def test_live_memory_counts_tensors_saved_for_the_backward_pass() -> None:
    weight = torch.ones(256, requires_grad=True)

    def chain(length: int) -> None:
        value = weight * 1
        for _ in range(length):
            value = value.exp()  # keeps its result
        value.sum().backward()
        weight.grad = None

    deep, shallow = (peak_bytes(lambda length=length: chain(length)) for length in (20, 10))
    assert deep - shallow == 10 * 1024
    assert deep == peak_bytes(lambda: chain(20))  # the same at every run


def test_the_fast_step_takes_little_more_memory_than_the_literal_one() -> None:
    method, batch = make_method(num_classes=3), make_batch()
    draw = torch.rand(3, 3, 16)
    noise = (draw[0], draw[1], draw[2])
    literal = peak_bytes(
        lambda: literal_loss(method.network, batch.views, batch.labels, noise).backward()
    )
    fast = peak_bytes(lambda: torch.stack([*method.loss(batch).values()]).sum().backward())
    assert fast < 1.1 * literal


def test_every_codec_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "CODECS", {"raw": CODECS["raw"], "jpeg": CODECS["jpeg"]})
    works = pieces.codec_works()
    assert list(works) == ["encode raw", "decode raw", "encode jpeg", "decode jpeg"]
    for work in works.values():
        work()


@pytest.mark.slow
def test_the_bench_reports_what_the_documents_list() -> None:
    from remnant.bench import bench

    figures = bench(repeats=1, overhead_steps=2)
    for scale in ("step_paper", "step_mini"):
        assert set(figures[scale]) >= {
            "images_per_second", "gflop_per_image", "fraction_of_gemm", "speedup_over_literal"
        }  # fmt: skip
    assert figures["step_paper"]["gflop_per_image"] <= 3.45
    for key in ("gemm_gflops", "predict_images_per_second", "complete_images_per_second"):
        assert figures[key] > 0
    assert figures["step_paper"]["peak_memory_over_literal"] < 1.1
    assert set(CODECS) == set(figures["codecs"])
    assert figures["checkpoint"]["megabytes_per_second"] > 0
    assert 0 < figures["overhead_fraction"] < 1
    assert len(list(bench_lines(figures))) > 10
