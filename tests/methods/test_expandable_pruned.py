from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from remnant.config import RunConfig
from remnant.errors import InputError
from remnant.methods.expandable_pruned import measure_statistics
from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import SCHEDULE, learn_task, make_residual, slow_cross_entropy

LABELS = torch.tensor([0, 3, 2])


def make(**options: Any) -> Any:
    settings = {"balanced_tuning": SCHEDULE, "max_scale": 20, "largest_start": 0.1}
    return make_residual("expandable-pruned", **(settings | options))


def second_task(**options: Any) -> Any:
    trainer, method = make_trainer(), make(**options)
    learn_task(method, 0, trainer)
    method.eval().begin_task(make_task(1), trainer.reader)
    return method.eval()


def test_the_loss_has_gates_of_the_step_and_their_sparsity() -> None:
    method = second_task(first={**SCHEDULE, "epochs": 2}, sparsity_weight=0.3)
    batch = make_batch(labels=LABELS, step=7, num_steps=10)  # two epochs of five steps
    scale = 1 / 20 + (20 - 1 / 20) * 2 / 4  # the third step of its epoch
    gates = torch.tensor(
        [1 / (1 + math.exp(-scale * logit)) for logit in method.gates.logits.tolist()]
    )
    terms = method.loss(batch)
    features = method.network.features(batch.views, gates).detach()
    scores = method.network.classifier(features).detach()
    newest = method.network.auxiliary(features[:, -64:]).detach()
    assert {name: term.item() for name, term in terms.items()} == {
        "classify": pytest.approx(slow_cross_entropy(scores, [0, 3, 2]), rel=1e-4),
        "auxiliary": pytest.approx(slow_cross_entropy(newest, [0, 2, 1]), rel=1e-4),
        "sparsity": pytest.approx(0.3 * method.network.newest.used_ratio(gates).item(), rel=1e-4),
    }


def test_the_network_is_evaluated_with_gates_that_are_open_or_closed() -> None:
    method = second_task()
    with torch.no_grad():
        method.gates.logits[::2] = -0.01
    views = make_batch().views
    expected = method.network.features(views, (method.gates.logits > 0).float())
    assert torch.equal(method.features(views), expected)


def test_closed_channels_are_gone_after_training_and_scores_stay() -> None:
    trainer, method, task = make_trainer(), make(balanced_tuning=None), make_task(0)
    method.begin_task(task, trainer.reader)
    phases = method.phases(task, trainer.reader)
    trainer.fit(method, task, next(phases))
    with torch.no_grad():
        method.gates.logits[::3] = -1
    views, is_open = make_batch().views, method.gates.is_open()
    sizes = [int(part.sum()) for part in is_open.split(method.network.newest.group_sizes)]
    whole = method.predict(views).detach()
    method.network.cut_newest(is_open)
    method.gates = None
    torch.testing.assert_close(method.predict(views), whole, rtol=1e-4, atol=1e-5)
    widths = [layer.conv.out_channels for layer in method.network.newest.layers()]
    assert widths == [sizes[0], sizes[3], sizes[0], sizes[4], sizes[1], sizes[5], sizes[2]]


def test_the_network_that_is_kept_has_no_gates_and_no_auxiliary_head() -> None:
    trainer, method = make_trainer(), make()
    for index in (0, 1):
        learn_task(method, index, trainer)
        assert {key.split(".")[0] for key in method.state_dict()} == {"network"}
        assert not any("auxiliary" in key for key in method.state_dict())
    kept = [int(one.is_kept.sum()) for one in method.network.all()]
    assert all(count < sum(one.group_sizes) for count, one in
               zip(kept, method.network.all(), strict=True))  # fmt: skip
    assert method.network.classifier.weight.shape == (4, method.network.width)


@pytest.mark.parametrize("decays_vectors", [True, False])
def test_weight_decay_leaves_the_gates_alone(decays_vectors: bool) -> None:
    optimizer = {"name": "sgd", "lr": 0.05, "weight_decay": 100.0, "momentum": 0.0}
    optimizer |= {"decay_norms_and_biases": decays_vectors}
    method = make(first={**SCHEDULE, "optimizer": optimizer}, sparsity_weight=0)
    trainer, task = make_trainer(), make_task(0)
    method.begin_task(task, trainer.reader)
    phase = next(method.phases(task, trainer.reader))
    (player,) = phase.players
    logits = method.gates.logits
    before = logits.detach().clone()
    logits.grad = torch.full_like(logits, 0.5)
    player.on_gradients()
    decay = 100.0 if decays_vectors else 0.0
    torch.testing.assert_close(logits.grad + decay * before, torch.full_like(logits, 0.5))


def test_logits_are_clamped_after_every_step() -> None:
    method, trainer, task = make(), make_trainer(), make_task(0)
    method.begin_task(task, trainer.reader)
    (player,) = next(method.phases(task, trainer.reader)).players
    with torch.no_grad():
        method.gates.logits[0] = 9
    player.after_step()
    assert method.gates.logits[0].item() == 6


def test_statistics_are_measured_over_all_images_of_both_sets() -> None:
    trainer, method = make_trainer(), make()
    method.begin_task(make_task(0), trainer.reader)
    network = method.network.newest.network
    sets = [make_task(0).train, make_task(1).train]
    measure_statistics(method.network.newest, sets, trainer.reader)
    views = trainer.reader.views(torch.cat([one.images.read(torch.arange(12)) for one in sets]))
    maps = network.conv(views).detach().transpose(0, 1).flatten(1)  # [C, values]
    torch.testing.assert_close(network.norm.running_mean, maps.mean(dim=1))
    torch.testing.assert_close(network.norm.running_var, maps.var(dim=1))
    assert network.norm.momentum == 0.1
    assert not network.training


@pytest.mark.parametrize("index", [0, 1])
def test_statistics_are_measured_again_once_channels_are_cut(index: int) -> None:
    trainer, method, task = make_trainer(), make(balanced_tuning=None), make_task(index)
    for earlier in range(index):
        learn_task(method, earlier, trainer)
    method.begin_task(task, trainer.reader)
    replay, phases = method.replay(), method.phases(task, trainer.reader)
    trainer.fit(method, task, next(phases))
    trained = method.network.newest.network.norm.running_mean.clone()
    assert next(phases, None) is None  # the cut comes after training
    network = method.network.newest.network
    sets = [task.train] if replay is None else [task.train, replay]
    images = torch.cat([one.images.read(torch.arange(len(one))) for one in sets])
    maps = network.conv(trainer.reader.views(images)).detach().transpose(0, 1).flatten(1)
    torch.testing.assert_close(network.norm.running_mean, maps.mean(dim=1))
    torch.testing.assert_close(network.norm.running_var, maps.var(dim=1))
    assert len(trained) > len(network.norm.running_mean) > 0


def test_an_optimiser_without_sizes_of_gradients_is_refused() -> None:
    schedule = {**SCHEDULE, "optimizer": {"name": "adam", "lr": 0.001}}
    values = {
        "data": {"dataset": "digits"},
        "memory": {"budget": "3images/class"},
        "method": {"name": "expandable-pruned", "first": schedule},
    }
    with pytest.raises(InputError, match=r"optimizer\.name must be sgd; got adam"):
        RunConfig.parse(values)
