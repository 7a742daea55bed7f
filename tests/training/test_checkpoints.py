from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remnant.archives import write_archive
from remnant.errors import InputError
from remnant.training.checkpoints import VERSION, Checkpoints, Point, phase_end

IN_ORDER = [
    Point(0, 0, 5),
    Point(0, 0, 10),
    phase_end(0, 0),
    Point(0, 1, 5),
    phase_end(0, 1),
    Point(1),
    Point(1, 0, 5),
    phase_end(1, 0),
    Point(1, 1, 5),
    phase_end(1, 1),
    Point(2),
]


def save(checkpoints: Checkpoints, *points: Point) -> None:
    for point in points:
        checkpoints.save(point, {"weights": np.arange(3)}, {"name": point.file_name})


def damage(checkpoints: Checkpoints, point: Point) -> None:
    path = checkpoints.folder / point.file_name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@given(st.permutations(IN_ORDER))
def test_points_are_ordered_as_a_run_passes_them(points: list[Point]) -> None:
    assert sorted(points) == IN_ORDER


def test_a_point_is_found_again_by_its_file_name(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for point in IN_ORDER:
        write_archive(tmp_path / point.file_name, "checkpoint", VERSION, {}, None)
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".task-001.safetensors.abc.tmp").touch()
    assert checkpoints.points() == IN_ORDER


def test_the_path_to_a_point_is_the_start_of_its_task_and_the_ends_before_it() -> None:
    checkpoints = Checkpoints(Path("unused"))
    assert checkpoints.path_to(Point(2)) == [Point(2)]
    expected = [Point(2), phase_end(2, 0), phase_end(2, 1), Point(2, 2, 30)]
    assert checkpoints.path_to(Point(2, 2, 30)) == expected
    assert checkpoints.path_to(phase_end(1, 0)) == [Point(1), phase_end(1, 0)]


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    save(checkpoints, Point(0, 0, 5))
    arrays, metadata = checkpoints.load(Point(0, 0, 5))
    assert arrays["weights"].tolist() == [0, 1, 2]
    assert metadata == {"name": "task-000-phase-0-step-00000005.safetensors"}


@pytest.mark.parametrize("count", range(1, len(IN_ORDER) + 1))
def test_pruning_keeps_the_last_two_points_and_what_they_stand_on(
    tmp_path: Path, count: int
) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, *IN_ORDER[:count])
    last_two = IN_ORDER[max(0, count - 2) : count]
    needed = {step for point in last_two for step in checkpoints.path_to(point)} - {Point(0)}
    before = last_two[-1].task - 1
    needed |= {one for one in IN_ORDER if one.task == before and (one.is_start or one.is_end)}
    assert set(checkpoints.points()) == needed
    assert checkpoints.newest_readable() == IN_ORDER[count - 1]


def test_a_folder_without_checkpoints_has_no_newest(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path).newest_readable() is None
    assert Checkpoints(tmp_path / "missing").newest_readable() is None


@pytest.mark.parametrize("count", range(2, len(IN_ORDER) + 1))
def test_a_damaged_newest_falls_back_to_the_one_before(tmp_path: Path, count: int) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, *IN_ORDER[:count])
    newest, before = IN_ORDER[count - 1], IN_ORDER[count - 2]
    damage(checkpoints, newest)
    if newest in checkpoints.path_to(before):
        pytest.skip("the one before stands on the newest")
    if newest.is_end or newest.step > 0 or newest.is_start:
        assert checkpoints.newest_readable() == before


def test_a_damaged_start_of_a_task_falls_back_to_the_task_before(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, *IN_ORDER, Point(2, 0, 5), Point(2, 0, 10))
    damage(checkpoints, Point(2))
    assert checkpoints.newest_readable() == phase_end(1, 1)


def test_a_point_whose_task_start_is_missing_is_not_used(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, phase_end(0, 0), Point(1))
    write_archive(tmp_path / Point(2, 0, 5).file_name, "checkpoint", VERSION, {}, None)
    assert checkpoints.newest_readable() == Point(1)


def test_with_all_damaged_the_error_says_how_to_start_over(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, Point(0, 0, 5), Point(0, 0, 10))
    for point in checkpoints.points():
        damage(checkpoints, point)
    with pytest.raises(InputError, match=r"no checkpoint in .* can be read: .*config\.json"):
        checkpoints.newest_readable()


def test_checkpoints_of_another_version_are_refused_by_name(tmp_path: Path) -> None:
    write_archive(tmp_path / Point(1).file_name, "checkpoint", VERSION + 1, {}, None)
    with pytest.raises(InputError, match=f"format version {VERSION + 1}"):
        Checkpoints(tmp_path).newest_readable()
