"""J: the same images and seed give the same store, bit for bit, and other seeds another."""

from __future__ import annotations

import random
from pathlib import Path

from tests.attacks.tally import Tally
from tests.support.small_learner import stripes, tiny_learner


def attack(folder: Path, seed: int, count: int) -> Tally:
    """`count` pairs of learners; in every one the process has a past of its own."""
    chance, tally, digests = random.Random(seed), Tally(), set()
    for number in range(count):
        names, drawn = chance.sample("abcdefgh", 3), chance.randrange(10**6)
        found = []
        for _ in range(2):
            learner = tiny_learner(epochs=1, seed=drawn)
            learner.partial_fit(*stripes(*names[:2], seed=drawn))
            learner.partial_fit(*stripes(names[2], seed=drawn))
            found.append(learner.digest())
        digests.add(found[0])
        is_same = found[0] == found[1]
        tally.add(None if is_same else f"pair {number} of seed {seed}: they differ")
    if len(digests) < count:
        tally.problems.append(f"seed {seed}: two seeds gave the same store")
    return tally
