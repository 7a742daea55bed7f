"""The card of a store: what it is, how often it is right, and whether it can be believed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from remnant.learner.reliability import measure_reliability
from remnant.learner.scoring import ScoredFolder, score_folder
from remnant.learner.store_card import card_text, write_card
from tests.support.small_learner import stripes, tiny_learner, write_stripes


def test_probabilities_are_compared_with_what_is_right() -> None:
    shares = np.array([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8], [0.4, 0.6], [0.001, 0.999]])
    found = measure_reliability(shares, np.array([0, 0, 0, 1, 1]))
    assert [row[:3] for row in found.rows] == [(0.5, 0.7, 1), (0.7, 0.9, 3), (0.99, 1.0, 1)]
    assert [row[4] for row in found.rows] == pytest.approx([1, 2 / 3, 1])
    by_hand = (0.4 * 1 + (0.8 - 2 / 3) * 3 + 0.001 * 1) / 5
    assert found.error == pytest.approx(by_hand)


def test_certain_and_right_is_no_error() -> None:
    assert measure_reliability(np.eye(3), np.arange(3)).error == 0


def test_a_card_has_accuracy_reliability_confusion_and_limits(tmp_path: Path) -> None:
    store = tmp_path / "stripes.remnant"
    learner = tiny_learner().partial_fit(write_stripes(tmp_path / "taught", "a", "c"))
    learner.save(store)
    test = write_stripes(tmp_path / "test", "a", "c", per_class=3, seed=9)
    card, page = write_card(learner.state_, store, test)
    assert (card.name, page.name) == ("stripes.card.md", "stripes.html")
    text = card.read_text()
    scored = score_folder(learner.state_, test)
    assert f"{scored.accuracy:.1f} % of 6 test images are correct." in text
    assert f"{100 * scored.reliability.error:.1f} points from the share that is correct." in text
    assert f"| a | {scored.confusion[0, 0]} | {scored.confusion[0, 1]} |" in text
    assert "A forgotten class leaves its trace" in text


def test_without_a_test_nothing_is_claimed(tmp_path: Path) -> None:
    store = tmp_path / "stripes.remnant"
    learner = tiny_learner().partial_fit(write_stripes(tmp_path / "taught", "a", "c"))
    learner.save(store)
    text = write_card(learner.state_, store, None)[0].read_text()
    assert "It was never measured: no test images were given." in text
    assert "## Reliability" not in text
    assert "## Confusion" not in text


def test_a_test_image_that_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    store = tmp_path / "stripes.remnant"
    learner = tiny_learner().partial_fit(write_stripes(tmp_path / "taught", "a", "c"))
    learner.save(store)
    test = write_stripes(tmp_path / "test", "a", "c", per_class=3, seed=9)
    broken = next((test / "a").iterdir())
    broken.write_bytes(broken.read_bytes()[:20])
    scored = score_folder(learner.state_, test)
    assert int(scored.confusion.sum()) == 5
    assert scored.notes == (f"1 unreadable image is left out: {broken}.",)
    assert scored.facts()["notes"] == list(scored.notes)
    text = write_card(learner.state_, store, test)[0].read_text()
    assert "of 5 test images are correct.\n\nNote: 1 unreadable image is left out" in text


def test_names_with_a_bar_do_not_break_the_tables(tmp_path: Path) -> None:
    names = ("a|b", "c|d")
    images, labels = stripes("a", "c", per_class=6, seed=0)
    renamed = [dict(zip(("a", "c"), names, strict=True))[label] for label in labels]
    learner = tiny_learner().partial_fit(images, renamed)
    learner.save(tmp_path / "stripes.remnant")
    confusion = np.array([[1, 2], [0, 3]])
    scored = ScoredFolder(names, confusion, [], [], measure_reliability(np.eye(2), np.arange(2)))
    text = card_text(learner.state_, tmp_path / "stripes.remnant", scored)
    rows = [line for line in text.splitlines() if line.startswith("| a")]
    assert rows
    for row in rows:
        bars = re.findall(r"(?<!\\)\|", row)
        assert len(bars) in (4, 6), row  # confusion and classes
