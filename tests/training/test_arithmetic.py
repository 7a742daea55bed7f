"""Claims about the FLOPs that are counted while a run trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.images import ImageSet, Task
from remnant.methods.base import MethodContext
from remnant.methods.teacher import Frozen, make_teacher
from remnant.phases import Batch, Phase, StepReport, Terms
from remnant.runs import experiment
from remnant.training.arithmetic import FlopCount, StepArithmetic, counted_apart
from remnant.training.trainer import Trainer
from tests.support import small_bimae
from tests.support.command_line import tiny_config
from tests.support.pixel_method import Pixels, make_pixels, schedule
from tests.support.pixel_trainer import make_trainer
from tests.support.step_log import Log
from tests.support.worlds import make_set

PIXELS = 16 * 16 * 3


def reports_of(
    trainer: Trainer, method: nn.Module, phase: Phase, num_old: int = 0
) -> list[StepReport]:
    log = Log()
    task = Task(int(num_old > 0), 2, num_old, ("a", "b"), phase.data)
    trainer.fit(method, task, phase, watchers=(log,))
    return log.reports


# ----------------------------------------------------------------------------------- operations


def test_a_linear_and_a_convolutional_layer_count_what_they_do_by_hand() -> None:
    linear, rows = nn.Linear(5, 3), torch.randn(7, 5)
    with FlopCount() as count:
        linear(rows).sum().backward()
    assert count.flops == 2 * (2 * 7 * 5 * 3)  # forward, and the gradient of the weights
    convolution, images = nn.Conv2d(2, 4, 3, padding=1), torch.randn(3, 2, 6, 6, requires_grad=True)
    with FlopCount() as count:
        convolution(images).sum().backward()
    assert count.flops == 3 * (2 * 3 * 6 * 6 * 4 * 2 * 9)  # and that of the images


def test_attention_counts_both_products_and_twice_as_much_backward() -> None:
    tokens = torch.randn(2, 4, 9, 8, requires_grad=True)
    with FlopCount() as count:
        F.scaled_dot_product_attention(tokens, tokens, tokens).sum().backward()
    assert count.flops == 3 * (2 * 2 * 4 * 9 * 9 * 8 * 2)


def test_a_count_apart_leaves_no_trace() -> None:
    network = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Dropout(0.5))
    network(torch.randn(7, 5)).sum().backward()
    rows, state = torch.randn(7, 5), torch.get_rng_state()
    before = [one.clone() for one in network.state_dict().values()]
    gradients = [one.grad.clone() for one in network.parameters() if one.grad is not None]
    modes = []

    def work() -> None:
        modes.append(network[1].training)
        network(rows).sum().backward()

    flops = counted_apart(network, list(network.parameters()), work)
    assert modes == [False]  # or SyncBatchNorm would wait for other processes
    assert all(part.training for part in network.modules())
    assert flops == 2 * (2 * 7 * 5 * 5)
    assert torch.equal(state, torch.get_rng_state())
    for one, old in zip(network.state_dict().values(), before, strict=True):
        assert torch.equal(one, old)
    for parameter, old in zip(network.parameters(), gradients, strict=True):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, old)


# --------------------------------------------------------------------------------- kinds of steps


def rows_of(*counts: int) -> tuple[int, ...]:
    return (*counts, *[0] * (32 - len(counts)))


def test_what_a_step_takes_follows_from_its_rows_after_a_few_were_counted() -> None:
    steps, new, old = StepArithmetic(), 123_456_789_123, 77
    for first in range(10, 5, -1):
        rows = rows_of(first, 15 - first)
        assert steps.known(rows) is None
        steps.learn(rows, first * new + (15 - first) * old)
    assert steps.known(rows_of(1_000, 3)) == 1_000 * new + 3 * old
    assert steps.known(rows_of(10, 5, 1)) is None  # a kind of rows that was never counted


def test_steps_that_are_all_alike_are_counted_a_few_times() -> None:
    steps, rows = StepArithmetic(), rows_of(4, 4)  # which does not say what a row of each takes
    for _ in range(4):
        assert steps.known(rows) is None
        steps.learn(rows, 1_000)
    assert steps.known(rows) == 1_000
    assert steps.known(rows_of(5, 3)) is None


@pytest.mark.parametrize("flops_of", [lambda step: (step % 4) ** 2, lambda step: 100 + step])
def test_steps_that_are_not_the_sum_of_their_rows_are_counted_each(flops_of) -> None:
    steps = StepArithmetic()
    for step in range(12):
        rows = rows_of(step % 4)
        assert steps.known(rows) is None
        steps.learn(rows, flops_of(step))


# ------------------------------------------------------------------------------- steps of training


def test_the_steps_of_a_linear_network_count_forward_and_backward() -> None:
    method = make_pixels()
    reports = reports_of(make_trainer(), method, method.phase("train", make_set(), schedule(2, 7)))
    assert len({report.images for report in reports}) == 2  # batches differ by an image
    assert [one.flops for one in reports] == [4 * one.images * PIXELS * 4 for one in reports]
    assert [one.new_images for one in reports] == [one.images for one in reports]


class Taught(Pixels):
    """Has a teacher with half of the classes, whose answers it learns at every third step."""

    teacher: Frozen[nn.Sequential]

    def loss(self, batch: Batch) -> Terms:
        terms = super().loss(batch)
        if batch.step % 3 == 0:
            old = self.teacher(batch.views)
            terms["distill"] = F.mse_loss(self.predict(batch.views)[:, :2], old)
        return terms


def test_the_teacher_and_terms_of_some_steps_count_where_they_are() -> None:
    pixels = make_pixels(2)
    method = Taught(pixels.config, MethodContext((16, 16, 3), (2, 2), None))
    method.classifier.grow(2)
    method.teacher = make_teacher(method.backbone, method.classifier)
    method.classifier.grow(2)
    data, replay = halves()
    phase = method.phase("train", data, schedule(3, 5), replay=replay)
    reports = reports_of(make_trainer(), method, phase, num_old=2)
    for report in reports:
        own = 4 * report.images * PIXELS * 4
        taught = own + 2 * report.images * PIXELS * 2  # predicted again, and by the teacher
        assert report.flops == (own + taught if report.step % 3 == 0 else own)
    shown = sum(report.new_images for report in reports)
    assert shown == 3 * len(data)  # "union" shows every image once per epoch


def halves() -> tuple[ImageSet, ImageSet]:
    images = make_set()
    is_new = images.labels >= 2
    return (
        images.select(torch.nonzero(is_new).flatten()),
        images.select(torch.nonzero(~is_new).flatten()),
    )


def block(tokens: int, mlp: int) -> int:
    width = small_bimae.NETWORK.width
    products = 2 * tokens * width * 3 * width + 2 * tokens * width * width
    return products + 4 * tokens * tokens * width + 4 * tokens * width * mlp


def encoder(patches: int) -> tuple[int, int]:
    """FLOPs of the embedding, and of all blocks."""
    network = small_bimae.NETWORK
    pixels = 3 * network.patch_size**2
    blocks = network.depth * block(patches + 1, network.mlp_width)
    return 2 * patches * pixels * network.width, blocks


def decoder() -> int:
    network, patches = small_bimae.NETWORK, small_bimae.NUM_PATCHES
    pixels = 3 * network.patch_size**2
    return block(patches + 1, network.mlp_width) + 2 * patches * network.width * pixels


def head(patches: int, num_classes: int) -> int:
    """The detail branch, the fusion for one token out of both branches, and the classifier."""
    network = small_bimae.NETWORK
    width, tokens = network.width, patches + 1
    detail = 3 * 2 * tokens * width * width
    keys = 2 * (2 * tokens) * width * 2 * width + 4 * (2 * tokens) * width
    fusion = 2 * (2 * width * width) + keys + 4 * width * network.fusion_mlp_width
    return detail + fusion + 2 * width * num_classes


def test_masked_and_unmasked_steps_of_bimae_count_as_by_hand() -> None:
    num_classes, visible, fine = 4, small_bimae.NUM_VISIBLE, 9  # 60 % of 16 patches
    method = small_bimae.make_method(
        num_classes=num_classes, unmasked_ratio=0.5, unmasked_placement="spread"
    )
    phase = next(method.phases(Task(0, 1, 0, tuple("abcd"), make_set()), make_trainer().reader))
    reports = reports_of(make_trainer(), method, phase)
    embedding, blocks = encoder(visible)
    learned = blocks + head(visible, num_classes) + 2 * decoder()
    # The embedding has no gradient for pixels; x2 sees more patches and is not learned from.
    masked = 2 * embedding + 3 * learned + sum(encoder(fine)) + decoder()
    embedding, blocks = encoder(small_bimae.NUM_PATCHES)
    whole = 2 * embedding + 3 * (blocks + head(small_bimae.NUM_PATCHES, num_classes))
    expected = {True: masked, False: whole}
    assert {"reconstruct" in report.terms for report in reports} == {True, False}
    for report in reports:
        assert report.flops == report.images * expected["reconstruct" in report.terms]


class TwiceSeen(Pixels):
    """Predicts some rows, drawn at random, once more."""

    def loss(self, batch: Batch) -> Terms:
        again = torch.nonzero(self.is_again(batch)).flatten()
        once_more = F.cross_entropy(self.predict(batch.views[again]), batch.labels[again])
        return super().loss(batch) | {"again": once_more}

    def is_again(self, batch: Batch) -> Tensor:
        return (batch.draw("again") < 0.5).index_fill(0, torch.tensor([0]), True)


class ToldTwiceSeen(TwiceSeen):
    def row_kinds(self, batch: Batch) -> Tensor:
        """See `TellsRows`."""
        return self.is_again(batch).long()


@pytest.mark.parametrize("kind", [TwiceSeen, ToldTwiceSeen])
def test_rows_that_take_more_at_random_are_counted(kind: type[TwiceSeen]) -> None:
    method = kind(make_pixels().config, MethodContext((16, 16, 3), (4,), None))
    method.classifier.grow(4)
    seen: list[int] = []
    phase = method.phase("train", make_set(), schedule(6, 8))

    def noting(batch: Batch) -> Terms:
        seen.append(len(batch.labels) + int(method.is_again(batch).sum()))
        return method.loss(batch)

    noted = replace(phase, players=(replace(phase.players[0], loss=noting),))
    reports = reports_of(make_trainer(), method, noted)
    assert len(set(seen)) > 3
    assert [report.flops for report in reports] == [4 * rows * PIXELS * 4 for rows in seen]


# ------------------------------------------------------------------------------------ whole runs


class StopAt:
    def __init__(self, task: int, phase: str, step: int) -> None:
        self._place = (task, phase, step)

    def on_step(self, report: StepReport) -> None:
        if (report.task, report.phase, report.step) == self._place:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("recipe", "places"),
    [
        ("digits-dytox", [(0, "train", 1), (1, "train", 1), (1, "tune", 0), (1, "tune", 3)]),
        ("digits-bimae-patches", [(1, "train", 0), (1, "train", 1)]),
    ],
)
def test_a_run_that_was_stopped_counts_as_one_that_was_not(
    recipe: str,
    places: list[tuple[int, str, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("draw_memory", "write_report"):
        monkeypatch.setattr(experiment, name, lambda *_: None)
    config = tiny_config(recipe, training__checkpoint_every_steps=1, method__first__batch_size=4)
    whole = experiment.run(config, tmp_path / "whole")
    assert whole.train_flops is not None
    assert whole.train_flops > 0
    for number, place in enumerate(places):
        folder = tmp_path / str(number)
        with pytest.raises(KeyboardInterrupt):
            experiment.run(config, folder, watchers=(StopAt(*place),))
        resumed = experiment.resume(folder)
        assert resumed.train_flops == whole.train_flops
        assert resumed.passes_over_new == whole.passes_over_new


def test_herding_counts_and_evaluation_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "write_report", lambda *_: None)
    steps = Log()
    config = tiny_config("digits-er", method__first__epochs=3)
    result = experiment.run(config, tmp_path / "run", watchers=(steps,))
    features = 0
    for task in range(2):
        # All 12 images of a task; features are predictions without a classifier of 64 inputs.
        num_classes = 2 * (task + 1)
        features += 12 * (result.predict_flops_per_task[task] - 2 * 64 * num_classes)
    assert result.train_flops == sum(report.flops for report in steps.reports) + features
    assert result.passes_over_new == [3.0, 3.0]
