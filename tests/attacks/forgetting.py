"""I: a forgotten class leaves no trace in the store or beside it, and the others keep every bit."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from remnant.learner import Learner, learn_into_store
from remnant.learner.receipts import compare
from remnant.learner.store import forget_with_receipt, read_store
from tests.attacks.tally import Tally
from tests.support.small_learner import TINY, stripes

_WINDOW = 12  # bytes of an exemplar that no file may hold


def forget_one(folder: Path, chance: random.Random) -> str | None:
    """What is wrong after forgetting a random class of a random store, if anything."""
    folder.mkdir()
    store, names = folder / "stripes.remnant", chance.sample("abcdefgh", chance.randrange(2, 5))
    seed, cut = chance.randrange(1000), chance.randrange(1, len(names))
    for part, some in enumerate((names[:cut], names[cut:])):  # no two images share a background
        images = stripes(*some, seed=2 * seed + part)
        learn_into_store(store, *images, **TINY | {"epochs": 1, "seed": seed})
    before, name = Learner.load(store), chance.choice(names)
    assert before.memory_ is not None
    label = before.classes_.tolist().index(name)
    gone = [one.payload for one in before.memory_.exemplars(label)]
    rows = before.method_.state_dict()["classifier.weight"].numpy()
    _, receipt = forget_with_receipt(store, name)
    files = [path for path in folder.rglob("*") if path.is_file()]
    if files != [store]:
        return f"beside the store: {files}"
    content, after = store.read_bytes(), Learner.load(store)
    for payload in (*gone, rows[label].tobytes()):
        windows = range(0, len(payload) - _WINDOW, _WINDOW)
        if any(payload[first : first + _WINDOW] in content for first in windows):
            return f"a part of {name} is left"
    kept = [other for other in before.classes_.tolist() if other != name]
    if after.classes_.tolist() != kept or after.memory_ is None:
        return "other classes are left than should be"
    now = after.method_.state_dict()["classifier.weight"].numpy()
    for place, other in enumerate(kept):
        old = before.classes_.tolist().index(other)
        if (now[place] != rows[old]).any():
            return f"the row of {other} changed"
        if after.memory_.exemplars(place) != before.memory_.exemplars(old):
            return f"the exemplars of {other} changed"
    compare(receipt, read_store(store))
    return None


def attack(folder: Path, seed: int, count: int) -> Tally:
    folder.mkdir(parents=True)
    chance, tally = random.Random(seed), Tally()
    for number in range(count):
        problem = forget_one(folder / str(number), chance)
        tally.add(None if problem is None else f"store {number} of seed {seed}: {problem}")
        shutil.rmtree(folder / str(number))
    return tally
