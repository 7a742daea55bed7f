"""Stores that an earlier remnant wrote: they open, predict the same, and go on being taught."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from remnant.learner import Learner, forget_in_store, learn_into_store

# Written by remnant 0.1.0 at commit c1833d0: `bimae` of patches was taught a, c and g, forgot g,
# and was taught more of c with e; `pixels` was taught a and c, then e.
FOLDER = Path(__file__).parent / "old_stores"


def stripes(*names: str, per_class: int = 6, first: int = 0) -> tuple[np.ndarray, list[str]]:
    """Images with two bright columns per class, by arithmetic alone: uint8 [N, 16, 16, 3]."""
    labels = [name for name in names for _ in range(per_class)]
    numbers = np.arange(first, first + len(labels)).reshape(-1, 1, 1, 1)
    grid = np.arange(16 * 16 * 3).reshape(1, 16, 16, 3)
    images = ((numbers * 41 + grid * 29) % 64).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        column = 2 * (ord(label) - ord("a"))
        image[:, column : column + 2] += 150
    return images, labels


@pytest.mark.parametrize("name", ["bimae", "pixels"])
def test_an_old_store_predicts_what_it_predicted_learns_on_and_forgets(
    name: str, tmp_path: Path
) -> None:
    store = Path(shutil.copy(FOLDER / f"{name}.remnant", tmp_path))
    expected = json.loads((FOLDER / f"{name}.json").read_text())
    learner = Learner.load(store).set_params(accelerator="cpu", threads=1)
    assert learner.classes_.tolist() == expected["classes"] == ["a", "c", "e"]
    found = learner.predict_proba(stripes("a", "c", "e", "g", per_class=2, first=1000)[0])
    assert np.abs(found - np.array(expected["probabilities"])).max() < 1e-4
    state = learn_into_store(store, *stripes("g"), accelerator="cpu", threads=1, quiet=True)
    assert state.classes == ("a", "c", "e", "g")
    forget_in_store(store, "c")
    assert Learner.load(store).classes_.tolist() == ["a", "e", "g"]
