from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from remnant.images import ArrayImages, ImageSet
from remnant.memory import RawConfig
from remnant.methods import redrawing
from remnant.methods.bimae import BiMAE
from remnant.methods.redrawing import complete_images
from remnant.phases import Batch, Phase
from remnant.views.augment import to_images
from tests.support.small_bimae import (
    PATCHES,
    SHORT,
    Spy,
    after_first_task,
    batches_of,
    learn,
    literal_twin,
    make_batch,
    make_method,
    make_task,
    make_trainer,
    noise_images,
    patch_pixels,
    some_known,
)
from tests.support.worlds import MEAN, STD


def begun(**options: Any) -> BiMAE:
    """A method at the start of its second task."""
    trainer = make_trainer()
    method = after_first_task(trainer, **options)
    method.begin_task(make_task(1), trainer.reader)
    return method


def first_phase(method: BiMAE) -> Phase:
    return next(iter(method.phases(make_task(1), make_trainer().reader)))


def stored_of(method: BiMAE) -> tuple[Tensor, Tensor]:
    """Pixels and known patches of everything in the memory."""
    stored = method.replay()
    assert stored is not None
    assert stored.is_known is not None
    return pixels_of(stored), stored.is_known


def pixels_of(images: ImageSet | None) -> Tensor:
    assert images is not None
    assert isinstance(images.images, ArrayImages)
    return images.images.array


def replayed(batch: Batch) -> list[tuple[int, Tensor, Tensor | None]]:
    """For each replayed row: its place in the replay set, its pixels, its known patches."""
    rows = torch.nonzero(batch.is_replay).flatten().tolist()
    images = to_images(batch.views, MEAN, STD)
    known = batch.is_known
    return [
        (int(batch.ids[row]), images[row], None if known is None else known[row]) for row in rows
    ]


# -------------------------------------------------------------------------------------- completions


def test_a_completion_is_e5_of_the_network_before_with_stored_pixels_pasted_over() -> None:
    trainer = make_trainer()
    method = after_first_task(trainer)
    method.network.decoder.to_pixels.weight.data *= 3  # so that some pixels leave the byte range
    images, known = stored_of(method)
    twin = literal_twin(copy.deepcopy(method))
    method.begin_task(make_task(1), trainer.reader)
    completed = pixels_of(method.completed)
    assert len(completed) == 12

    is_stored = patch_pixels(known)
    assert torch.equal(completed[is_stored], images[is_stored])
    levels = []
    for image, grid in zip(images, known, strict=True):
        view = (image.permute(2, 0, 1).double() / 255 - MEAN[0]) / STD[0]
        visible = torch.nonzero(grid.flatten()).flatten().tolist()
        drawn = twin.completion(view, visible).detach()
        levels.append(((drawn * STD[0] + MEAN[0]) * 255).permute(1, 2, 0))
    expected = torch.stack(levels)
    assert bool((expected < 0).any())
    assert bool((expected > 255).any())
    gap = (completed - expected.clamp(0, 255)).abs()[~is_stored]
    assert float(gap.max()) < 0.5 + 1e-3


def test_the_new_network_leaves_the_completions_of_the_old_one_alone() -> None:
    trainer = make_trainer()
    method = after_first_task(trainer)
    spy = Spy(method, "complete_memory")
    shown: list[Tensor] = []
    learn(method, make_task(1), trainer, lambda phase: shown.append(pixels_of(phase.replay)))
    assert len(spy.calls) == 1
    assert torch.equal(pixels_of(method.completed), shown[0])
    assert not torch.equal(pixels_of(method.complete_memory(trainer.reader))[:12], shown[0])


@pytest.mark.parametrize("at_once", [1, 5])
def test_completions_do_not_depend_on_how_many_are_made_at_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, reader = begun(), make_trainer().reader
    together = pixels_of(method.completed).int()
    monkeypatch.setattr(redrawing, "_COMPLETED_AT_ONCE", at_once)
    apart = pixels_of(method.complete_memory(reader)).int()
    gap = (together - apart).abs()
    assert int(gap.max()) <= 1  # where rounding decides
    assert float((gap > 0).float().mean()) < 1e-3


def test_pasting_takes_the_same_few_operations_for_any_number_of_images() -> None:
    class Counter(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            self.count += 1
            return func(*args, **(kwargs or {}))

    method, reader = make_method(num_classes=2), make_trainer().reader
    counts = []
    for size in (2, 9):
        images, known = noise_images(size), some_known(size)
        with Counter() as counter:
            completed = complete_images(method.network, images, known, reader)
        counts.append(counter.count)
        is_stored = patch_pixels(known)
        assert torch.equal(completed[is_stored], images[is_stored])
        assert not torch.equal(completed, images)
    assert counts[0] == counts[1]


def test_whole_exemplars_are_replayed_as_they_are() -> None:
    method = begun(codec=RawConfig())
    replay = method.replay()
    assert method.completed is not None
    assert method.completed.is_known is None
    assert torch.equal(pixels_of(method.completed), pixels_of(replay))


def test_without_generated_replay_the_rest_is_plain_and_stored_patches_alone_are_shown() -> None:
    method = begun(generate_replay=False)
    images, known = stored_of(method)
    completed = pixels_of(method.completed)
    is_stored = patch_pixels(known)
    for image, plain, where in zip(images, completed, is_stored, strict=True):
        assert torch.equal(plain[where], image[where])
        assert len(plain[~where].unique(dim=0)) == 1
        mean = image[where].double().mean(dim=0)
        assert float((plain[~where][0] - mean).abs().max()) <= 0.5
    spy = Spy(method.network, "encode_first")
    for batch in batches_of(first_phase(method)):
        spy.calls.clear()
        method.loss(batch)
        assert batch.is_known is not None
        visible_ids = spy.calls[0][1]
        for row in torch.nonzero(batch.is_replay).flatten().tolist():
            stored = torch.nonzero(batch.is_known[row].flatten()).flatten()
            assert torch.equal(visible_ids[row], stored)
            assert len(stored) == 4


def test_a_refresh_redraws_the_memory_and_the_learning_rate_goes_on() -> None:
    optimizer = SHORT.optimizer.model_copy(update={"schedule": "cosine", "lr": 0.01})
    schedule = SHORT.model_copy(update={"epochs": 3, "optimizer": optimizer})
    rates, shown = [], []
    for every in (None, 2, 1):
        torch.manual_seed(0)  # the same initial weights
        trainer = make_trainer()
        method = after_first_task(trainer, first=schedule, refresh_every_epochs=every)
        spy = Spy(method, "complete_memory")
        sets: list[Tensor] = []
        log = learn(
            method, make_task(1), trainer, lambda phase, to=sets: to.append(pixels_of(phase.replay))
        )
        assert [report.step for report in log.reports] == list(range(9))
        assert len(spy.calls) == len(sets)
        rates.append([report.lr for report in log.reports])
        shown.append(sets)
    assert [len(sets) for sets in shown] == [1, 2, 3]
    assert rates[0] == rates[1] == rates[2]
    assert len(set(rates[0])) == 9
    assert torch.equal(shown[0][0], shown[2][0])
    assert not torch.equal(shown[2][0], shown[2][1])


def test_the_first_task_has_nothing_to_refresh_and_stays_one_phase() -> None:
    trainer = make_trainer()
    method = make_method(first=SHORT.model_copy(update={"epochs": 3}), refresh_every_epochs=1)
    method.begin_task(make_task(0), trainer.reader)
    assert [phase.name for phase in method.phases(make_task(0), trainer.reader)] == ["train"]


# -------------------------------------------------------------------------------------- exact views


def test_an_exact_view_shows_the_stored_patches_and_nothing_else() -> None:
    method, known = make_method(num_classes=3, exact_view_ratio=1.0), some_known(3)
    batch = make_batch(is_known=known)
    pixels = patch_pixels(known)[:, None]
    # Whatever the completion says, were it not even a number.
    spoiled = make_batch(is_known=known, views=batch.views.masked_fill(~pixels, float("nan")))
    spy = Spy(method.network, "encode_first")
    terms, other = method.loss(batch), method.loss(spoiled)
    assert all(torch.equal(terms[name], other[name]) for name in terms)
    for visible_ids, grid in zip(spy.calls[0][1], known, strict=True):
        assert torch.equal(visible_ids, torch.nonzero(grid.flatten()).flatten())
    changed = make_batch(is_known=known, views=batch.views.masked_fill(pixels, 0.0))
    assert not torch.equal(method.loss(changed)["classify"], terms["classify"])


def test_exact_views_show_what_is_stored_flipped_with_its_positions() -> None:
    method = begun(exact_view_ratio=1.0, first=SHORT.model_copy(update={"epochs": 3}))
    images, known = stored_of(method)
    flips = set()
    for batch in batches_of(first_phase(method)):
        for place, image, grid in replayed(batch):
            assert grid is not None
            is_flipped = not torch.equal(grid, known[place])
            flips.add(is_flipped)
            expected = images[place].flip(1) if is_flipped else images[place]
            assert torch.equal(grid, known[place].flip(1) if is_flipped else known[place])
            where = patch_pixels(grid[None])[0]
            assert torch.equal(image[where], expected[where])
    assert flips == {False, True}


def test_a_ratio_of_zero_treats_completions_as_whole_images() -> None:
    method = begun(exact_view_ratio=0.0)
    completed = pixels_of(method.completed)
    moved = 0
    for batch in batches_of(first_phase(method)):
        for place, image, grid in replayed(batch):
            assert grid is None
            whole = completed[place]
            moved += not (torch.equal(image, whole) or torch.equal(image, whole.flip(1)))
    assert moved > 6  # of 12: cropped


def test_a_ratio_of_a_half_shows_about_half_of_the_exemplars_exactly() -> None:
    method = begun(exact_view_ratio=0.5, first=SHORT.model_copy(update={"epochs": 20}))
    batches = batches_of(first_phase(method))
    is_exact = [
        not bool(grid.all())
        for batch in batches
        for _, _, grid in replayed(batch)
        if grid is not None
    ]
    assert len(is_exact) == 20 * 12
    assert 0.4 < sum(is_exact) / len(is_exact) < 0.6
    new = [batch.is_known[~batch.is_replay] for batch in batches if batch.is_known is not None]
    assert bool(torch.cat(new).all())


def test_exact_views_give_no_target_to_redraw() -> None:
    method = make_method(num_classes=3, exact_view_ratio=1.0)
    decode = Spy(method.network.decoder, "forward")
    terms = method.loss(make_batch(is_known=some_known(3)))
    assert float(terms["reconstruct"]) == float(terms["detail"]) == 0
    assert not decode.calls
    torch.stack(list(terms.values())).sum().backward()


def test_where_more_is_stored_than_shown_an_exact_view_is_a_sample_of_it() -> None:
    codec = PATCHES.model_copy(update={"mask_ratio": 0.5})
    method = make_method(codec, num_classes=3, exact_view_ratio=1.0)
    known = some_known(3, num_known=8)
    spy = Spy(method.network, "encode_first")
    for step in range(2):
        method.loss(make_batch(is_known=known, step=step))
    first, second = [ids for _, ids in spy.calls]
    assert first.shape == (3, 4)
    assert bool(known.flatten(1).gather(1, first).all())
    assert not torch.equal(first, second)


# ------------------------------------------------------------------------------------------- memory


def test_processes_that_choose_apart_hold_the_same_exemplars_within_one_budget() -> None:
    # Fails where every process keeps exemplars of its own: memory would grow with processes.
    trainer = make_trainer()
    method = make_method(budget="1images/class")
    task = make_task(0)
    method.begin_task(task, trainer.reader)
    digests = set()
    for rank in range(2):
        process = copy.deepcopy(method)
        torch.manual_seed(rank)
        process.end_task(task, make_trainer().reader)
        assert process.memory is not None
        assert process.memory.counts == [3, 3]  # of 6: 3 x (192 + 2) bytes in 768
        assert process.memory.nbytes <= process.memory.budget_bytes == 2 * 768
        digests.add(process.memory.digest())
    assert len(digests) == 1


# -------------------------------------------------------------------------- presentation symmetry


def test_new_images_are_completed_and_left_uncropped_as_exemplars_are() -> None:
    trainer = make_trainer()
    method = after_first_task(trainer, exact_view_ratio=0.5, presentation="symmetric")
    task = make_task(1)
    method.begin_task(task, trainer.reader)
    phase = next(method.phases(task, trainer.reader))
    assert phase.aligns_new
    assert phase.twins is not None
    assert method.memory is not None
    stored = method.memory.present(pixels_of(task.train).numpy().astype("uint8"))
    assert stored is not None
    assert stored.is_known is not None
    twins, originals = pixels_of(phase.twins), pixels_of(task.train)
    is_stored = patch_pixels(stored.is_known)
    assert torch.equal(twins[is_stored], originals[is_stored])
    assert not torch.equal(twins[~is_stored], originals[~is_stored])


def test_as_published_new_images_are_shown_as_they_are() -> None:
    trainer = make_trainer()
    method = after_first_task(trainer)
    method.begin_task(make_task(1), trainer.reader)
    phase = next(method.phases(make_task(1), trainer.reader))
    assert (phase.aligns_new, phase.twins) == (False, None)
