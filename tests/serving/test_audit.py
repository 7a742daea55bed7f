"""The audit log: every attempt to change the store, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remnant.errors import InputError
from remnant.files import UnsyncedError
from remnant.learner import Learner
from remnant.learner import store as store_module
from remnant.serving import StoreSession, build_app, store_session
from remnant.serving.guard import Rules
from tests.support.http_client import Client, png
from tests.support.small_learner import stripes


@pytest.fixture
def audited(store: Path, tmp_path: Path) -> Iterator[Client]:
    session = StoreSession(store, tmp_path / "audit.jsonl")
    yield Client(build_app(session, Rules()))
    session.close()


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (folder / "audit.jsonl").read_text().splitlines()]


def test_each_change_is_a_line_with_digests(audited: Client, store: Path, tmp_path: Path) -> None:
    digests = [Learner.load(store).digest()]
    images = [png(image) for image in stripes("e")[0]]
    assert audited.taught("e", images)["state"] == "done"
    digests.append(Learner.load(store).digest())
    assert audited("POST", "/api/undo").status_code == 200
    assert audited("DELETE", "/api/classes/c").status_code == 200
    digests.append(Learner.load(store).digest())
    taught, undone, forgotten = lines(tmp_path)
    assert (taught["action"], taught["classes"], taught["images"]) == ("teach", ["e"], 6)
    assert (taught["digest_before"], taught["digest_after"]) == (digests[0], digests[1])
    assert (undone["action"], undone["digest_after"]) == ("undo", digests[0])
    assert (forgotten["action"], forgotten["classes"]) == ("forget", ["c"])
    assert forgotten["digest_after"] == digests[2]
    assert {line["outcome"] for line in lines(tmp_path)} == {"done"}
    assert all(line["client"] == "127.0.0.1" for line in lines(tmp_path))


def test_what_fails_is_noted_and_what_reads_is_not(audited: Client, tmp_path: Path) -> None:
    assert audited("POST", "/api/undo").status_code == 409
    assert audited("GET", "/api/store").status_code == 200
    audited.predict(png(stripes("a")[0][0]))
    (line,) = lines(tmp_path)
    assert (line["action"], line["outcome"]) == ("undo", "failed")
    assert "nothing to undo" in line["error"]
    assert "digest_after" not in line


def test_a_change_that_the_disk_could_not_confirm_is_noted_as_one(
    audited: Client, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = store_module.write_archive

    def write_unsynced(path: Path, *arguments: Any) -> None:
        write(path, *arguments)
        raise UnsyncedError(OSError(5, "Input/output error"), path)

    monkeypatch.setattr(store_module, "write_archive", write_unsynced)
    assert audited("DELETE", "/api/classes/c").status_code == 409
    (line,) = lines(tmp_path)
    assert line["outcome"] == "failed"
    assert line["digest_after"] == Learner.load(store).digest() != line["digest_before"]
    assert [one["name"] for one in audited("GET", "/api/classes").json()] == ["a"]


def test_a_new_store_that_cannot_be_read_at_once_is_not_called_unchanged(
    audited: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Path) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(store_session, "read_version", fail)
        job = audited.taught("e", [png(image) for image in stripes("e")[0]])
        assert job["state"] == "done"
    assert "could not be read again" in caplog.text
    assert [one["name"] for one in audited("GET", "/api/classes").json()] == ["a", "c", "e"]


def test_a_file_that_cannot_be_written_is_told_at_the_start(store: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must be a file to append to .* another --audit"):
        StoreSession(store, tmp_path)


@pytest.mark.parametrize("name", ["stripes.remnant", "stripes.remnant.before", "link.jsonl"])
def test_the_store_is_no_audit_file(store: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "link.jsonl").symlink_to(store)
    before = store.read_bytes()
    with pytest.raises(InputError, match=r"must be a file of its own; .* another --audit"):
        StoreSession(store, tmp_path / name)
    assert store.read_bytes() == before
    assert not (tmp_path / "stripes.remnant.before").exists()


def test_a_mistyped_name_of_the_store_leaves_no_audit_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        StoreSession(tmp_path / "none.remnant", tmp_path / "audit.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_harms_no_change(
    audited: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "audit.jsonl").unlink()
    (tmp_path / "audit.jsonl").mkdir()
    assert audited("DELETE", "/api/classes/c").status_code == 200
    assert "audit.jsonl could not be written" in caplog.text
