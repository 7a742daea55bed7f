"""A store is verified in one line; what was forgotten can be shown to be gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from remnant.archives import read_archive, write_archive
from remnant.errors import InputError
from remnant.files import UnsyncedError
from remnant.learner import Learner, learn_into_store, work_folder
from remnant.learner import store as store_module
from remnant.learner.receipts import compare, read_receipt
from remnant.learner.store import KIND, VERSION, forget_with_receipt, read_store
from remnant.learner.verification import verify_store
from remnant.training.checkpoints import Checkpoints, Point
from tests.support.command_line import Command
from tests.support.small_learner import TINY, Counter, stripes

RECEIPT = "stripes.remnant.receipt-1.json"


@pytest.fixture
def store(tmp_path: Path, command: Command) -> Path:
    path = tmp_path / "stripes.remnant"
    learn_into_store(path, *stripes("a", "c"), **TINY)
    return path


def rewrite(path: Path, **arrays: Any) -> None:
    found, metadata = read_archive(path, KIND, VERSION)
    write_archive(path, KIND, VERSION, found | arrays, metadata)


def test_a_sound_store_is_told_in_one_line(command: Command, store: Path) -> None:
    outcome = command("verify", store)
    assert outcome.code == 0, outcome.err
    (line,) = outcome.out.splitlines()
    assert line.startswith(f"{store}: checksum correct, 386 finite numbers for 2 classes; ")
    assert "12 exemplars decode, 2,304 of 2,304 bytes are used" in line
    assert Learner.load(store).digest()[:12] in line


def test_what_nothing_reads_is_told(command: Command, store: Path) -> None:
    rewrite(store, hidden=np.zeros(3, np.uint8))
    assert "holds hidden, which nothing reads" in command("verify", store).sentence


def test_an_exemplar_that_does_not_decode_is_told_by_name(tmp_path: Path) -> None:
    path = tmp_path / "coded.remnant"
    learn_into_store(path, *stripes("a", "c"), **TINY | {"codec": "webp", "budget": "1KiB/class"})
    verify_store(path)
    payload = np.array(read_archive(path, KIND, VERSION)[0]["memory/payload"])
    payload[:40] ^= 255
    rewrite(path, **{"memory/payload": payload})
    with pytest.raises(InputError, match="class 'a'"):
        verify_store(path)


def test_forgetting_writes_a_receipt_that_the_store_agrees_with(
    command: Command, store: Path
) -> None:
    before = read_store(store)
    assert before.method.memory is not None
    assert f"receipt: {RECEIPT}" in command("forget", store.name, "a", "--yes").out
    receipt = json.loads(store.with_name(RECEIPT).read_text())
    assert receipt["removed_class"] == "a"
    assert len(receipt["removed_exemplars"]) == 6
    assert receipt["removed_bytes"] == 6 * 192
    assert receipt["digest_before"] == before.digest()
    assert receipt["digest_after"] == Learner.load(store).digest()
    assert receipt["equals_never_seen"] is False
    assert "trained on its images" in receipt["cannot_be_undone"][0]
    outcome = command("verify", store, "--receipt", store.with_name(RECEIPT))
    assert "by the receipt, it is the store that forgetting 'a' left" in outcome.out


def test_pages_that_still_show_the_class_are_named(command: Command, store: Path) -> None:
    learn_into_store(store, *stripes("e"), **TINY)
    page, card = store.with_suffix(".html"), store.with_suffix(".card.md")
    page.touch()
    note = " ".join(command("forget", store.name, "a", "--yes").out.split())
    assert f"note: {page.name} still shows the class; delete it" in note
    card.touch()
    note = " ".join(command("forget", store.name, "c", "--yes").out.split())
    assert f"note: {page.name} and {card.name} still show it; delete them, or write" in note


def test_a_receipt_may_be_written_elsewhere_and_never_over_another(
    command: Command, store: Path, tmp_path: Path
) -> None:
    learn_into_store(store, *stripes("e", "g"), **TINY)
    assert command("forget", store, "a", "--yes", "--receipt", tmp_path / "x.json").code == 0
    assert (tmp_path / "x.json").exists()
    for name in ("c", "e"):
        assert command("forget", store, name, "--yes").code == 0
    found = sorted(path.name for path in tmp_path.glob("*.receipt-*"))
    assert found == [RECEIPT, RECEIPT.replace("-1", "-2")]


@pytest.mark.parametrize("arguments", [("--yes",), ()])
def test_a_file_that_exists_is_no_place_for_a_receipt(
    command: Command, store: Path, arguments: tuple[str, ...]
) -> None:
    """Neither written over, nor removed if the store cannot be written, nor asked about."""
    kept, before = store.with_name("r.json"), store.read_bytes()
    kept.write_text("precious")
    told = command("forget", store, "a", *arguments, "--receipt", kept).sentence
    assert told == f"the receipt must be a new file; {kept} exists. Choose another name."
    with pytest.raises(InputError, match="must be a new file"):
        forget_with_receipt(store, "a", kept)
    assert (kept.read_text(), store.read_bytes()) == ("precious", before)


def test_a_store_that_has_the_class_or_its_exemplars_is_told(command: Command, store: Path) -> None:
    old = store.read_bytes()
    command("forget", store, "a", "--yes")
    receipt = store.with_name(RECEIPT)
    learn_into_store(store, *stripes("e"), **TINY)
    assert (
        "has changed since 'a' was forgotten" in command("verify", store, "--receipt", receipt).out
    )
    learn_into_store(store, *stripes("a"), **TINY)
    assert "knows 'a'" in command("verify", store, "--receipt", receipt).sentence
    store.write_bytes(old)
    told = command("verify", store, "--receipt", receipt).sentence
    assert "the one from before 'a' was forgotten" in told
    images, labels = stripes("a")
    learn_into_store(store.with_name("renamed"), images, ["other"] * len(labels), **TINY)
    state = read_store(store.with_name("renamed"))
    with pytest.raises(InputError, match="holds an exemplar of 'a'"):
        compare(read_receipt(receipt), state)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "other"}'])
def test_what_is_no_receipt_is_told(command: Command, store: Path, content: str) -> None:
    store.with_name("r.json").write_text(content)
    assert "r.json" in command("verify", store, "--receipt", "r.json").sentence


def test_forgetting_tells_of_an_update_that_was_stopped(command: Command, store: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), quiet=True, watchers=(Counter(9),))
    told = command("forget", store, "a", "--yes").out
    assert "The checkpoints of an update that was stopped are removed too." in told


def test_a_class_is_not_forgotten_without_a_receipt(command: Command, store: Path) -> None:
    store.with_name("file").touch()
    before = store.read_bytes()
    outcome = command("forget", store, "a", "--yes", "--receipt", "file/r.json")
    assert outcome.code == 2
    assert "The store is unchanged" in outcome.err
    assert store.read_bytes() == before


# -------------------------------------------------------------- the new store, and words for it


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the store cannot be synced once it is written."""
    write = store_module.write_archive

    def write_unsynced(path: Path, *arguments: Any) -> None:
        write(path, *arguments)
        raise UnsyncedError(OSError(5, "Input/output error"), path)

    monkeypatch.setattr(store_module, "write_archive", write_unsynced)


def test_a_new_store_is_not_called_unchanged(command: Command, store: Path, unsynced: None) -> None:
    told = command("forget", store, "a", "--yes").sentence
    assert told.startswith("the new stripes.remnant is in place, but may not survive a power cut")
    assert "unchanged" not in told
    assert read_store(store).classes == ("c",)
    receipt = store.with_name("stripes.remnant.receipt-1.json")
    assert {path.name for path in store.parent.iterdir()} == {store.name, receipt.name}
    assert command("verify", store, "--receipt", receipt).code == 0


def test_a_class_that_is_forgotten_keeps_its_receipt_when_stopped(
    command: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = store_module.write_archive

    def write_and_stop(path: Path, *arguments: Any) -> None:
        write(path, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(store_module, "write_archive", write_and_stop)
    outcome = command("forget", store, "a", "--yes")
    assert outcome.code == 130
    assert "stopped. The new store had already been written." in outcome.err
    assert read_store(store).classes == ("c",)
    receipt = store.with_name("stripes.remnant.receipt-1.json")
    assert command("verify", store, "--receipt", receipt).code == 0


def test_no_receipt_is_left_of_what_failed(
    command: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_module, "write_archive", fail)
    assert "The store is unchanged" in command("forget", store, "a", "--yes").sentence
    assert [path.name for path in store.parent.iterdir()] == [store.name]


def test_a_checkpoint_that_cannot_be_synced_leaves_the_old_store(
    command: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, save = store.read_bytes(), Checkpoints.save

    def save_unsynced(self: Checkpoints, point: Point, *arguments: Any) -> None:
        save(self, point, *arguments)
        raise UnsyncedError(OSError(5, "Input/output error"), self.folder / point.file_name)

    monkeypatch.setattr(Checkpoints, "save", save_unsynced)
    (store.parent / "more" / "e").mkdir(parents=True)
    Image.fromarray(stripes("e")[0][0]).save(store.parent / "more" / "e" / "0.png")
    outcome = command("learn", store, "more")
    assert outcome.code == 2
    assert "(Input/output error). The store is unchanged" in outcome.err
    assert store.read_bytes() == before


def test_a_work_folder_that_stays_is_a_note(
    command: Command, store: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(work_folder, "_remove_at_once", fail)
        assert command("forget", store, "a", "--yes").code == 0
    assert "could not be removed (Input/output error); the next update" in caplog.text
    assert read_store(store).classes == ("c",)
    learn_into_store(store, *stripes("e"), **TINY)
    assert not list(store.parent.glob("*.work"))
