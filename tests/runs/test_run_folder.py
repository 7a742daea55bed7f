from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from remnant.errors import InputError
from remnant.runs.run_folder import find_runs, read_run
from tests.support.run_folders import WriteRun


def test_a_finished_run_is_read_whole(write_run: WriteRun) -> None:
    run = read_run(write_run("run"))
    assert run.result.finished
    assert run.classes_seen == [2, 4, 6]
    assert run.task_names(1) == ["class 2", "class 3"]
    assert run.result.memory is not None
    assert run.result.memory.exemplars_per_class == [20, 19, 20, 19, 20, 19]


def test_a_run_without_result_is_read_from_its_events(write_run: WriteRun) -> None:
    folder = write_run("run", num_done=2)
    (folder / "result.json").unlink()
    run = read_run(folder)
    assert not run.result.finished
    assert (run.num_done_tasks, run.num_tasks) == (2, 3)
    assert run.result.accuracies == [98.0, 93.0]
    assert run.result.average_accuracy == 95.5
    assert run.result.class_names == ["class 0", "class 1", "class 2", "class 3"]


def test_lines_cut_off_by_a_kill_are_ignored_wherever_they_stand(write_run: WriteRun) -> None:
    folder = write_run("run")
    events = folder / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    whole = len(read_run(folder).events)
    events.write_bytes(b"".join([*lines[:5], b'{"event": "st\xff\n', *lines[5:], b'{"event"']))
    assert len(read_run(folder).events) == whole


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "task_begin"}',
        '{"event": "task_begin", "task": 9, "class_names": 5}',
        '{"event": "task_end", "task": 9}',
        '{"event": "task_end", "task": [1], "accuracy": 1.0}',
        '{"event": "task_end", "task": 9, "accuracy": 1.0, "seconds": "long"}',
        '{"event": "step", "task": 0}',
        '{"event": "step", "task": 0, "step": 9, "terms": {"loss": "small"}}',
        '{"event": "step", "task": 0, "step": 9, "terms": 3}',
        '{"event": "step", "task": 0, "step": 9, "phase": [1]}',
        "[" * 100_000,
    ],
)
def test_damaged_events_are_ignored(write_run: WriteRun, line: str) -> None:
    folder = write_run("run")
    (folder / "result.json").unlink()
    before = read_run(folder)
    with (folder / "events.jsonl").open("a") as file:
        file.write(line + "\n")
    after = read_run(folder)
    assert after.result == before.result
    assert after.events == before.events


def test_unknown_entries_of_a_newer_version_are_accepted(write_run: WriteRun) -> None:
    folder = write_run("run", result={"invented_later": [1, 2]})
    assert read_run(folder).result.finished


def test_a_folder_that_is_no_run_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must be a run folder.*remnant run"):
        read_run(tmp_path)
    with pytest.raises(InputError, match="hold run folders"):
        find_runs([tmp_path / "absent"])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is not valid JSON: Expecting value in line 1, column 1"),
        (b'{\n "seed": 0\n "order": 1}', "is not valid JSON: Expecting ',' .* in line 3, column 2"),
        (b"[1]", "must hold one JSON object, the result of a run; it is damaged"),
        (b'{"seed": "\xff"}', "must hold one JSON object, the result of a run; it is damaged"),
    ],
)
def test_a_damaged_file_is_named(write_run: WriteRun, content: bytes, told: str) -> None:
    folder = write_run("run")
    (folder / "result.json").write_bytes(content)
    with pytest.raises(InputError, match=rf"result\.json ({told})"):
        read_run(folder)


def test_a_wrong_entry_is_named(write_run: WriteRun) -> None:
    folder = write_run("run", result={"accuracies": ["high"]})
    with pytest.raises(InputError, match=r"entry accuracies\.0 is wrong"):
        read_run(folder)


def test_damaged_predictions_are_named(write_run: WriteRun) -> None:
    folder = write_run("run")
    (folder / "predictions" / "task-002.safetensors").write_bytes(b"no")
    with pytest.raises(InputError, match=r"task-002\.safetensors"):
        read_run(folder).predictions()


def test_sweep_folders_are_searched_and_each_run_is_found_once(write_run: WriteRun) -> None:
    first, second = write_run("sweep/seed-0"), write_run("sweep/order-b/seed-0")
    write_run("sweep/seed-0/checkpoint/inner")  # inside a run, so no run of the sweep
    sweep = first.parent
    assert sorted(find_runs([sweep, first])) == sorted([first, second])


def test_links_that_lead_back_are_not_followed(write_run: WriteRun) -> None:
    run = write_run("sweep/seed-0")
    for name in ("a", "b"):
        (run.parent / name).symlink_to(run.parent)
    (run.parent / "itself").symlink_to("itself")
    assert find_runs([run.parent]) == [run]


def test_reading_and_tables_need_no_torch(write_run: WriteRun) -> None:
    folder = write_run("run")
    code = (
        "import sys, json; from pathlib import Path; import remnant.reports as reports\n"
        f"path = Path({json.dumps(str(folder))})\n"
        "reports.read_run(path); reports.markdown_table([path]); reports.terminal_rows(path)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
