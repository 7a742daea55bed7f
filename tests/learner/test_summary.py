from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from remnant.learner import Learner, summary
from remnant.learner.work_folder import work_folder
from remnant.reports import store_page
from tests.support.small_learner import stripes, tiny_learner


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[list[store_page.Exemplar]]:
    """What the page of a store is given to show, class by class."""
    kept: list[list[store_page.Exemplar]] = []

    def take(
        facts: object, exemplars: list[list[store_page.Exemplar]], out: Path, scored: object
    ) -> Path:
        kept.extend(exemplars)
        return out

    monkeypatch.setattr(summary, "write_store_page", take)
    return kept


def saved(path: Path, **changes: object) -> Learner:
    learner = tiny_learner(**changes).partial_fit(*stripes("a", "c"))
    learner.save(path)
    return learner


def test_whole_exemplars_are_shown_once_and_as_they_are(
    tmp_path: Path, shown: list[list[store_page.Exemplar]]
) -> None:
    learner = saved(tmp_path / "x.remnant")
    summary.write_gallery(learner.state_, tmp_path / "x.remnant", tmp_path / "x.html")
    assert [len(one) for one in shown] == [6, 6]
    images, _ = stripes("a", "c")
    for stored, completed, num_bytes in shown[0]:
        assert any(np.array_equal(stored[..., :3], image) for image in images[:6])
        assert (stored[..., 3] == 255).all()
        assert completed is None
        assert num_bytes == 8 * 8 * 3


def test_what_is_not_stored_is_transparent_and_completed_beside(
    tmp_path: Path, shown: list[list[store_page.Exemplar]]
) -> None:
    codec = {"name": "patches", "patch_size": 2, "mask_ratio": 0.75}
    learner = saved(tmp_path / "x.remnant", codec=codec)
    summary.write_gallery(learner.state_, tmp_path / "x.remnant", tmp_path / "x.html")
    for stored, completed, _ in shown[0]:
        assert (stored[..., 3] == 255).sum() == 4 * 2 * 2  # 4 of 16 patches
        assert completed is not None
        is_known = stored[..., 3] == 255
        assert (stored[is_known][:, :3] == completed[is_known]).all()


def test_more_classes_show_fewer_exemplars_each(
    tmp_path: Path, shown: list[list[store_page.Exemplar]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "_SHOWN", 10)
    learner = saved(tmp_path / "x.remnant")
    summary.write_gallery(learner.state_, tmp_path / "x.remnant", tmp_path / "x.html")
    assert [len(one) for one in shown] == [5, 5]


def test_bytes_of_the_classes_add_up_to_the_memory(tmp_path: Path) -> None:
    learner = saved(tmp_path / "x.remnant", codec="webp", budget="2KiB/class")
    facts = summary.store_facts(learner.state_, tmp_path / "x.remnant")
    total = sum(row["bytes"] for row in facts["classes"])
    assert total == facts["memory"]["used_bytes"] <= facts["memory"]["budget_bytes"]
    assert facts["parameters"] == 2 * (8 * 8 * 3 + 1)
    assert facts["is_update_unfinished"] is False
    work_folder(tmp_path / "x.remnant").mkdir()
    (work_folder(tmp_path / "x.remnant") / "task-001.safetensors").touch()
    facts = summary.store_facts(learner.state_, tmp_path / "x.remnant")
    assert facts["is_update_unfinished"] is True
