from __future__ import annotations

from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.phases import OptimizerConfig, Schedule, Share
from remnant.training.sampling import EndlessShuffle, Sampler


def make_sampler(
    labels: torch.Tensor,
    num_new: int,
    batch_size: int = 4,
    epochs: int = 3,
    steps_from: Literal["all", "new"] = "all",
    sampling: Literal["union", "balanced", "share"] = "union",
    new_share: tuple[Share, Share] = (0.5, 0.5),
    seed: int = 0,
) -> Sampler:
    schedule = Schedule(
        epochs=epochs,
        batch_size=batch_size,
        optimizer=OptimizerConfig(lr=0.1),
        steps_from=steps_from,
        sampling=sampling,
        new_share=new_share,
    )
    return Sampler(labels, num_new, schedule, seed)


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_union_shows_each_image_once_per_epoch(size: int, batch_size: int, epochs: int) -> None:
    sampler = make_sampler(torch.zeros(size, dtype=torch.int64), size, batch_size, epochs)
    for epoch in range(epochs):
        first = epoch * sampler.steps_per_epoch
        seen = torch.cat([sampler.positions(first + i) for i in range(sampler.steps_per_epoch)])
        assert sorted(seen.tolist()) == list(range(size))


def test_epochs_are_shuffled_differently_and_seeds_too() -> None:
    labels = torch.zeros(32, dtype=torch.int64)
    sampler, other = (make_sampler(labels, 32, 32, seed=seed) for seed in (0, 1))
    assert sampler.positions(0).tolist() != sampler.positions(1).tolist()
    assert sampler.positions(0).tolist() != other.positions(0).tolist()


def test_steps_from_new_counts_the_new_images_but_draws_from_all() -> None:
    labels = torch.arange(30) % 3
    sampler = make_sampler(labels, num_new=10, batch_size=5, epochs=3, steps_from="new")
    assert (sampler.steps_per_epoch, sampler.num_steps) == (2, 6)
    seen = torch.cat([sampler.positions(step) for step in range(6)])
    assert sorted(seen.tolist()) == list(range(30))  # three epochs' worth is one pass over all


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(1, 9),
    st.integers(0, 1000),
)
@settings(max_examples=50, deadline=None)
def test_balanced_shows_classes_equally_often_within_one(
    counts: list[int], batch_size: int, seed: int
) -> None:
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    sampler = make_sampler(labels, len(labels), batch_size, 2, sampling="balanced", seed=seed)
    drawn = torch.zeros(len(counts), dtype=torch.int64)
    for step in range(sampler.num_steps):
        drawn += torch.bincount(labels[sampler.positions(step)], minlength=len(counts))
        assert int(drawn.max() - drawn.min()) <= 1


def test_balanced_shows_every_image_of_a_class_before_repeating_one() -> None:
    labels = torch.tensor([0] * 6 + [1] * 2)
    sampler = make_sampler(labels, 8, batch_size=4, epochs=3, sampling="balanced")
    seen = torch.cat([sampler.positions(step) for step in range(3)])  # 12 draws, 6 of each class
    assert sorted(seen[labels[seen] == 0].tolist()) == list(range(6))
    assert sorted(seen[labels[seen] == 1].tolist()) == [6, 6, 6, 7, 7, 7]


@pytest.mark.parametrize("sampling", ["union", "balanced", "share"])
@given(order=st.permutations(range(12)))
@settings(max_examples=20, deadline=None)
def test_a_step_is_the_same_in_whatever_order_steps_are_asked(
    sampling: Literal["union", "balanced", "share"], order: list[int]
) -> None:
    labels = torch.arange(14) % 3
    expected = make_sampler(labels, 9, 4, sampling=sampling)
    in_turn = [expected.positions(step).tolist() for step in range(12)]
    asked = make_sampler(labels, 9, 4, sampling=sampling)
    assert {step: asked.positions(step).tolist() for step in order} == dict(enumerate(in_turn))


@given(st.integers(1, 40), st.integers(1, 15))
def test_the_batches_of_an_epoch_differ_by_one_at_most(size: int, batch_size: int) -> None:
    sampler = make_sampler(torch.zeros(size, dtype=torch.int64), size, batch_size, 1)
    sizes = [sampler.batch_size(step) for step in range(sampler.num_steps)]
    assert sizes == [len(sampler.positions(step)) for step in range(sampler.num_steps)]
    assert sum(sizes) == size
    assert max(sizes) <= batch_size
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 9), st.integers(0, 40), st.integers(0, 40))
def test_a_stretch_of_an_endless_row_is_its_places_one_by_one(
    size: int, start: int, length: int
) -> None:
    row = EndlessShuffle(torch.arange(100, 100 + size), 3, "test")
    places = range(start, start + length + 1)
    stretch = row.between(places.start, places.stop).tolist()
    assert stretch == [int(row.between(place, place + 1)) for place in places]


@given(st.integers(1, 20), st.integers(1, 7), st.integers(2, 4))
@settings(max_examples=30, deadline=None)
def test_repeated_views_repeat_each_draw_and_keep_the_length_of_epochs(
    size: int, batch_size: int, views_per_image: int
) -> None:
    schedule = Schedule(
        epochs=2 * views_per_image,
        batch_size=batch_size,
        optimizer=OptimizerConfig(lr=0.1),
        views_per_image=views_per_image,
    )
    sampler = Sampler(torch.zeros(size, dtype=torch.int64), size, schedule, seed=0)
    once = make_sampler(torch.zeros(size, dtype=torch.int64), size, size, epochs=2)
    assert sampler.steps_per_epoch == -(-size // batch_size)
    seen = torch.cat([sampler.positions(step) for step in range(sampler.num_steps)])
    drawn = torch.cat([once.positions(step) for step in range(once.num_steps)])
    assert seen.tolist() == drawn.repeat_interleave(views_per_image).tolist()


@given(st.floats(0.1, 0.9), st.floats(0.1, 0.9), st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_new_images_have_their_share_at_every_moment_of_the_phase(
    first: float, last: float, batch_size: int
) -> None:
    labels = torch.cat([torch.full((20,), 2), torch.arange(10) % 2])
    sampler = make_sampler(
        labels, 20, batch_size, 5, steps_from="new", sampling="share", new_share=(first, last)
    )
    drawn = torch.cat([sampler.positions(step) for step in range(sampler.num_steps)])
    share = torch.linspace(first, last, len(drawn) + 1)
    expected = torch.cumsum((share[1:] + share[:-1]) / 2, 0)
    assert ((drawn < 20).cumsum(0) - expected).abs().max() <= 1.01
    old = labels[drawn[drawn >= 20]]
    assert abs(int((old == 0).sum()) - int((old == 1).sum())) <= 1


def test_a_share_may_end_where_every_class_is_as_likely_as_any_other() -> None:
    labels = torch.cat([torch.arange(40) % 2 + 6, torch.arange(12) % 6])
    sampler = make_sampler(
        labels, 40, 8, 10, steps_from="new", sampling="share", new_share=(0.5, "balanced")
    )
    assert sampler.class_shares(0, 8).tolist() == pytest.approx([0.5 / 6] * 6 + [0.25] * 2)
    last = sampler.class_shares(sampler.num_steps - 1, 8)
    assert last.tolist() == pytest.approx([1 / 8] * 8)


def test_without_replay_every_draw_is_new_whatever_its_share() -> None:
    labels = torch.arange(12) % 3
    union, share = (make_sampler(labels, 12, sampling=how) for how in ("union", "share"))
    assert [union.positions(step).tolist() for step in range(9)] == [
        share.positions(step).tolist() for step in range(9)
    ]


@pytest.mark.parametrize("sampling", ["union", "balanced", "share"])
def test_class_shares_are_those_of_the_draws(
    sampling: Literal["union", "balanced", "share"],
) -> None:
    labels = torch.cat([torch.full((60,), 3), torch.tensor([0] * 10 + [1] * 20)])
    sampler = make_sampler(labels, 60, 9, 40, sampling=sampling, new_share=(0.4, 0.4))
    drawn = labels[torch.cat([sampler.positions(step) for step in range(sampler.num_steps)])]
    found = torch.bincount(drawn, minlength=4) / len(drawn)
    assert torch.allclose(found, sampler.class_shares(7, 4), atol=0.01)
