from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.methods.virtual_steps import after_steps
from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import (
    in_second_task,
    learn_task,
    make_residual,
    move_from_teacher,
    slow_cross_entropy,
    slow_distillation,
    softmax,
)
from tests.support.worlds import seeded

SIGNED = {"backbone": {"name": "resnet8", "has_last_relu": False}}
LABELS = torch.tensor([0, 3, 2])


def make_network() -> nn.Sequential:
    torch.manual_seed(3)
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 3))
    return network.double()


def slow_steps(network: nn.Module, inputs: Tensor, labels: Tensor, lr: float, num: int) -> Any:
    """A copy that is really trained, parameter by parameter."""
    copied = copy.deepcopy(network)
    for _ in range(num):
        copied.zero_grad()
        F.cross_entropy(copied(inputs), labels).backward()
        with torch.no_grad():
            for parameter in copied.parameters():
                assert parameter.grad is not None
                parameter -= lr * parameter.grad
    return copied


@pytest.mark.parametrize("num_steps", [1, 3])
def test_virtual_steps_are_those_of_a_copy_that_is_trained(num_steps: int) -> None:
    network, labels = make_network(), torch.tensor([0, 2, 1, 2])
    inputs, views = torch.randn(2, 4, 3, 2, 2, generator=seeded(1)).double()
    before = copy.deepcopy(network.state_dict())
    trained = after_steps(
        network, lambda scores: F.cross_entropy(scores, labels), inputs, 0.3, num_steps
    )
    expected = slow_steps(network, inputs, labels, 0.3, num_steps)(views)
    assert torch.allclose(trained(views), expected, rtol=1e-9)
    assert all(torch.equal(one, before[name]) for name, one in network.state_dict().items())


def test_the_gradient_through_a_virtual_step_is_that_of_differences() -> None:
    """[mnemonics] dL(theta'(E); D) / dE, entry by entry."""
    network, labels = make_network(), torch.tensor([0, 2])
    inputs, views = torch.randn(2, 2, 3, 2, 2, generator=seeded(2)).double()

    def outer(pixels: Tensor) -> float:
        trained = slow_steps(network, pixels, labels, 0.3, 2)
        return float(F.cross_entropy(trained(views), labels).detach())

    pixels = inputs.clone().requires_grad_()
    trained = after_steps(network, lambda scores: F.cross_entropy(scores, labels), pixels, 0.3, 2)
    F.cross_entropy(trained(views), labels).backward()
    assert pixels.grad is not None
    step = 1e-5
    for place in range(inputs.numel()):
        shift = torch.zeros(inputs.numel(), dtype=torch.float64)
        shift[place] = step
        up, down = inputs + shift.view_as(inputs), inputs - shift.view_as(inputs)
        slope = (outer(up) - outer(down)) / (2 * step)
        assert float(pixels.grad.flatten()[place]) == pytest.approx(slope, rel=1e-4, abs=1e-8)


def test_the_model_loss_is_cross_entropy_and_a_quarter_of_distillation() -> None:
    """[mnemonics] released: T^2 / 4 times KL(teacher || network), T = 2, so weight 1."""
    method = in_second_task(make_trainer(), "mnemonics", **SIGNED)
    move_from_teacher(method)
    batch = make_batch(labels=LABELS)
    scores = method.predict(batch.views).detach()
    old, terms = method.teacher(batch.views), method.loss(batch)
    assert terms["classify"].item() == pytest.approx(
        slow_cross_entropy(scores, LABELS.tolist()), rel=1e-5
    )
    entropy = 0.0
    for row in old.tolist():
        chances = torch.tensor(softmax(row, 2.0), dtype=torch.float64)
        entropy -= float((chances * chances.log()).sum()) / len(old)
    divergence = slow_distillation(scores, old, 2.0) - entropy
    assert divergence > 1e-4  # far above what is rounded
    assert terms["distill"].item() == pytest.approx(0.25 * 4 * divergence, rel=1e-2)


def opened(adjusting: bool) -> tuple[Any, Any]:
    """A method whose pixels are parameters, and its trainer."""
    trainer = make_trainer("none")
    method = in_second_task(trainer, "mnemonics", **SIGNED, inner_images=99)
    task = make_task(1)
    for phase in method.phases(task, trainer.reader):
        if phase.name == ("adjust" if adjusting else "optimise"):
            break
        trainer.fit(method, task, phase)
    return method.eval(), trainer


def literal_transfer(method: Any, chosen: Tensor, views: Tensor, labels: Tensor) -> float:
    network = nn.Sequential(method.backbone, method.cosine)
    labels_in = method.pixel_labels[chosen]
    trained = slow_steps(network, method.pixels.detach()[chosen], labels_in, 0.1, 1)
    return slow_cross_entropy(trained(views).detach(), labels.tolist())


def test_new_exemplars_serve_new_images() -> None:
    method, _ = opened(adjusting=False)
    assert method.pixel_labels.tolist() == [2, 2, 2, 3, 3, 3]
    batch = make_batch(labels=torch.tensor([2, 3, 2]))
    expected = literal_transfer(method, torch.arange(6), batch.views, batch.labels)
    assert method._serve(batch)["serve"].item() == pytest.approx(expected, rel=1e-4)


def test_old_exemplars_of_even_and_odd_rank_serve_each_other() -> None:
    method, _ = opened(adjusting=True)
    assert method.pixel_labels.tolist() == [0, 0, 0, 1, 1, 1]
    even, odd = torch.tensor([0, 2, 3, 5]), torch.tensor([1, 4])
    ids = torch.tensor([1, 2, 3])
    batch = make_batch(ids=ids, labels=method.pixel_labels[ids])
    terms = method._serve_each_other(batch)
    first = literal_transfer(method, even, batch.views[:1], batch.labels[:1])
    second = literal_transfer(method, odd, batch.views[1:], batch.labels[1:])
    assert terms["serve even"].item() == pytest.approx(first / 3, rel=1e-4)
    assert terms["serve odd"].item() == pytest.approx(2 * second / 3, rel=1e-4)


def test_what_is_stored_is_clamped_and_rounded() -> None:
    method, trainer = opened(adjusting=False)
    with torch.no_grad():
        method.pixels[0] = 1000.0  # whiter than white
        method.pixels[1] = -1000.0
    others = method.pixels.detach()[2:].clone()
    method._store(trainer.reader)
    assert method.pixels is None
    stored = method.memory.images().images.read(torch.arange(6, 12))
    assert (stored[0] == 255).all()
    assert (stored[1] == 0).all()
    assert torch.equal(stored[2:], trainer.reader.to_images(others))


def test_pixels_move_and_the_network_does_not() -> None:
    trainer = make_trainer()
    method = in_second_task(trainer, "mnemonics", **SIGNED)
    task, names = make_task(1), []
    for phase in method.phases(task, trainer.reader):
        before = {name: one.clone() for name, one in method.state_dict().items()}
        trainer.fit(method, task, phase)
        if phase.name != "train":
            after = method.state_dict()
            assert {name for name in after if not torch.equal(after[name], before[name])} == {
                "pixels"
            }
        names.append(phase.name)
    assert names == ["train", "optimise", "adjust"]


def test_old_exemplars_can_be_left_as_they_are() -> None:
    trainer = make_trainer()
    method = in_second_task(trainer, "mnemonics", **SIGNED, adjusts_old=False)
    before = method.memory.exemplars(0)
    log = learn_task_again(method, trainer)
    assert log == ["train", "optimise"]
    assert method.memory.exemplars(0) == before


def learn_task_again(method: Any, trainer: Any) -> list[str]:
    task, names = make_task(1), []
    for phase in method.phases(task, trainer.reader):
        trainer.fit(method, task, phase)
        names.append(phase.name)
    return names


def test_the_first_task_optimises_its_exemplars_too() -> None:
    log = learn_task(make_residual("mnemonics", **SIGNED), 0, make_trainer())
    assert {report.phase for report in log.reports} == {"train", "optimise"}
