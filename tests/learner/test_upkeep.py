"""What can be done to a store beside teaching it, through the commands that do it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remnant.learner import Learner
from remnant.learner import store as store_module
from remnant.learner.previous_store import previous_of
from remnant.methods import METHODS
from tests.support.command_line import Command
from tests.support.small_learner import TaughtPixels, tiny_learner, write_stripes


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("upkeep")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS, "pixels", TaughtPixels)
        tiny_learner().partial_fit(write_stripes(folder / "taught", "a", "c")).save(
            folder / "x.remnant"
        )
    write_stripes(folder / "more", "e")
    write_stripes(folder / "test", "a", "c", seed=1)
    return folder


@pytest.fixture
def store(taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    shutil.copytree(taught, folder)
    monkeypatch.chdir(folder)
    return folder / "x.remnant"


# ------------------------------------------------------------------------------------- bad images


def test_broken_images_are_left_out_and_named(command: Command, store: Path) -> None:
    Path("more/e/broken.jpg").write_bytes(b"no picture")
    Path("more/e/phone.heic").write_bytes(b"another format")
    outcome = command("learn", store, "more")
    assert outcome.code == 0
    assert "1 unreadable image is left out: more/e/broken.jpg." in outcome.err
    assert "1 item is skipped (sub-folders, and names that do not end in .jpg, " in outcome.err
    assert "e/phone.heic" in outcome.err
    assert Learner.load(store).history_[-1]["images"] == 6


def test_images_in_nested_folders_are_named(command: Command, store: Path) -> None:
    for folder in ("more/e", "test/a"):
        shutil.copytree(folder, f"{folder}/older")
        shutil.copytree(folder, f"{folder}/.hidden")
    assert "1 item is skipped (sub-folders, " in (told := command("learn", store, "more").err)
    assert "): e/older." in told
    outcome = command("score", store, "test")
    assert "of 12 images are correct" in outcome.out
    assert "): a/older." in outcome.out


def test_a_class_of_broken_images_is_refused(command: Command, store: Path) -> None:
    Path("more/f").mkdir()
    Path("more/f/x.jpg").write_bytes(b"no picture")
    assert "no image of class 'f' can be read" in command("learn", store, "more").sentence


def test_a_pipe_is_no_image(command: Command, store: Path) -> None:
    os.mkfifo("more/e/pipe.jpg")
    outcome = command("learn", store, "more")
    assert outcome.code == 0
    assert "more/e/pipe.jpg" in outcome.err


def test_copies_and_lopsided_classes_are_named(command: Command, store: Path) -> None:
    write_stripes(Path("more"), "e", per_class=14, seed=3)
    Path("more/g").mkdir()
    shutil.copy("more/e/03.png", "more/g/copy.png")
    outcome = command("learn", store, "more")
    pair = "more/e/03.png and more/g/copy.png"
    assert f"the same picture is in two classes: {pair}." in outcome.err
    assert "class 'e' has 14 images and class 'g' only 1" in outcome.err


def test_test_images_among_training_images_are_named(command: Command, store: Path) -> None:
    outcome = command("learn", store, "more", "--test", "more")
    assert "6 test images are also among the training images" in outcome.err


# ---------------------------------------------------------------------------------- guard and undo


def test_an_update_says_what_it_did_to_the_old_classes(command: Command, store: Path) -> None:
    outcome = command("learn", store, "more")
    assert "Old classes" in outcome.out
    assert "(of their exemplars)" in outcome.out
    entry = Learner.load(store).history_[-1]
    assert {name for name, _ in entry["class_accuracy_before"]} == {"a", "c"}
    assert entry["accuracy"] is None  # nobody knows without test images


def test_held_back_images_measure_the_accuracy(command: Command, store: Path) -> None:
    write_stripes(Path("many"), "e", "g", per_class=20)
    outcome = command("learn", store, "many")
    assert "of 4 held-out images" in outcome.out
    assert Learner.load(store).history_[-1]["images"] == 36


def test_a_guard_refuses_what_takes_too_much(command: Command, store: Path) -> None:
    """More images of a, all of which look like c, must cost c something."""
    for path in sorted(Path("taught/c").iterdir()):
        target = Path("wrong/a") / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    before = store.read_bytes()
    outcome = command("learn", store, "wrong", "--guard", "5", "--epochs", "60")
    assert outcome.code == 2
    assert "more than the guard of 5 points allows. Nothing was changed." in outcome.err
    assert store.read_bytes() == before
    assert sorted(path.name for path in store.parent.glob("x.remnant*")) == ["x.remnant"]
    assert command("learn", store, "more", "--guard", "100").code == 0


def test_the_last_update_can_be_undone_once(command: Command, store: Path) -> None:
    before = store.read_bytes()
    command("learn", store, "more")
    outcome = command("undo", store)
    assert "as it was before its last update: 2 classes" in outcome.out
    assert store.read_bytes() == before
    assert "has nothing to undo" in command("undo", store).sentence


def test_an_update_that_was_not_written_is_not_undone(
    command: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "write_archive", fail)
        assert command("learn", store, "more").code == 2
    assert "has nothing to undo" in command("undo", store).sentence


def test_a_file_system_without_links_modes_folder_syncs_and_locks_holds_stores(
    command: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As FAT and some network file systems answer."""
    plain_sync = os.fsync
    store.chmod(0o600)

    def refuse(code: int) -> Callable[..., None]:
        def fail(*_: Any, **__: Any) -> None:
            raise OSError(code, os.strerror(code))

        return fail

    def sync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            refuse(errno.EINVAL)()
        plain_sync(handle)

    monkeypatch.setattr(os, "link", refuse(errno.EPERM))
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(fcntl, "flock", refuse(errno.ENOLCK))
    before = store.read_bytes()
    command("learn", store, "more")
    assert previous_of(store).stat().st_mode & 0o777 == 0o600
    assert "as it was before its last update: 2 classes" in command("undo", store).out
    assert store.read_bytes() == before
    monkeypatch.setattr(os, "chmod", refuse(errno.EPERM))
    command("learn", store, "more")
    assert previous_of(store).read_bytes() == before
    assert command("forget", store, "a", "--yes").code == 0


def test_a_store_that_was_deleted_comes_back_as_it_was_before(
    command: Command, store: Path
) -> None:
    before = store.read_bytes()
    command("learn", store, "more")
    store.unlink()
    assert "as it was before its last update: 2 classes" in command("undo", store).out
    assert store.read_bytes() == before


def test_a_damaged_earlier_store_does_not_replace_a_good_one(command: Command, store: Path) -> None:
    command("learn", store, "more")
    present, previous = store.read_bytes(), previous_of(store)
    previous.write_bytes(previous.read_bytes()[:-100])
    assert "x.remnant.before" in command("undo", store).sentence
    assert store.read_bytes() == present


def test_forgetting_leaves_nothing_to_undo(command: Command, store: Path) -> None:
    command("learn", store, "more")
    assert previous_of(store).exists()
    command("forget", store, "a", "--yes")
    assert not previous_of(store).exists()
    assert "has nothing to undo" in command("undo", store).sentence


# ------------------------------------------------------------------------------------------ figures


def test_a_folder_is_scored(command: Command, store: Path) -> None:
    outcome = command("score", store, "test")
    assert outcome.code == 0
    assert "of 12 images are correct" in outcome.out
    facts = json.loads(command("score", store, "test", "--json").out)
    confusion = np.array(facts["confusion"])
    assert confusion.sum(axis=1).tolist() == [6, 6]
    assert facts["accuracy"] == pytest.approx(100 * np.trace(confusion) / 12)
    assert len(facts["mistakes"]) == 12 - np.trace(confusion)
    learner = Learner.load(store)
    assert facts["accuracy"] == pytest.approx(100 * learner.score("test"))


def test_the_most_frequent_confusions_are_told_by_name(command: Command, store: Path) -> None:
    for number, path in enumerate(sorted(Path("test/a").iterdir())):
        if number < 4:
            shutil.copy(path, Path("test/c") / f"really-a-{number}.png")
    learner = Learner.load(store)
    wrong = sum(learner.predict([str(path)])[0] == "a" for path in Path("test/c").iterdir())
    assert wrong > 0
    outcome = command("score", store, "test")
    assert f"most frequent confusions:\nc taken for a: {wrong} of 10\n" in outcome.out


def test_an_unknown_class_is_not_scored(command: Command, store: Path) -> None:
    assert (
        "must hold classes that the store knows; got 'e'"
        in command("score", store, "more").sentence
    )


def test_stores_are_compared(command: Command, store: Path) -> None:
    shutil.copy(store, "old.remnant")
    assert "The stores are the same." in command("diff", "old.remnant", store).out
    command("learn", store, "more")
    outcome = command("diff", "old.remnant", store)
    assert "not known" in outcome.out
    assert "6 exemplars" in outcome.out
    rows = json.loads(command("diff", "old.remnant", store, "--json").out)
    assert {"what": "classes", "one": "2", "other": "3"} in rows


# ------------------------------------------------------------------------------------------ memory


def test_a_budget_can_be_changed(command: Command, store: Path) -> None:
    kept = [image.tobytes() for image in Learner.load(store).remembered("a").stored]
    assert command("rebudget", store, "2images/class").code == 0
    learner = Learner.load(store)
    assert learner.memory_.counts == [2, 2]
    assert [image.tobytes() for image in learner.remembered("a").stored] == kept[:2]
    assert learner.budget == learner.settings_.memory.budget == "2images/class"
    command("rebudget", store, "9images/class")
    assert command("learn", store, "more").code == 0  # with the new budget
    assert Learner.load(store).memory_.counts == [2, 2, 6]


def test_thinning_to_a_budget_is_changing_it(command: Command, store: Path) -> None:
    shutil.copy(store, "other.remnant")
    told = [
        command("thin", store.name, "--budget", "2images/class").out,
        command("rebudget", "other.remnant", "2images/class").out,
    ]
    assert told[0] == told[1].replace("other.remnant", store.name)
    assert Learner.load(store).memory_.counts == [2, 2]
    assert "The stores are the same." in command("diff", "other.remnant", store).out
    both = command("thin", store, "a", "--budget", "1images/class").sentence
    assert "give either --budget, or a class with --keep or --remove" in both
    assert "give --budget, or a class" in command("thin", store).sentence


def test_what_was_removed_is_said_to_be_in_the_store_from_before(
    command: Command, store: Path
) -> None:
    kept = (
        "The store from before is kept as x.remnant.before, with what was removed; delete that "
        "file if it must be gone."
    )
    for line in (("thin", store, "c", "--remove", "2"), ("rebudget", store, "3images/class")):
        assert command(*line).out.splitlines()[-1] == kept
    assert kept not in command("rebudget", store, "9images/class").out  # nothing was removed


@pytest.mark.parametrize(
    "line", ["rebudget 3images/class", "thin c --keep 2", "rebuild --epochs 3"]
)
def test_a_full_disk_ends_upkeep_in_a_sentence(
    command: Command, store: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    before, (name, *rest) = store.read_bytes(), line.split()
    monkeypatch.setattr(store_module, "write_archive", fail)
    outcome = command(name, store, *rest)
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1] == (
        "remnant: No space left on device. The store is unchanged; fix this and run the same "
        "command again."
    )
    assert store.read_bytes() == before


def test_a_budget_that_holds_nothing_changes_nothing(command: Command, store: Path) -> None:
    before = store.read_bytes()
    assert "must hold one exemplar" in command("rebudget", store, "9B/class").sentence
    assert store.read_bytes() == before


def test_exemplars_are_thinned(command: Command, store: Path) -> None:
    kept = Learner.load(store).remembered("c").stored
    command("thin", store, "c", "--keep", "3")
    assert np.array_equal(Learner.load(store).remembered("c").stored, kept[:3])
    command("thin", store, "c", "--remove", "2")
    assert np.array_equal(Learner.load(store).remembered("c").stored, kept[[0, 2]])
    assert "give either" in command("thin", store, "c").sentence
    assert "either --keep N" in command("thin", store, "c").sentence
    assert "at least one exemplar" in command("thin", store, "c", "--keep", "0").sentence
    for number in ("0", "3"):
        told = command("thin", store, "c", "--remove", number).sentence
        assert f"class 'c' has exemplars 1 to 2; got {number}." in told
    command("inspect", store, "--html", "x.html")
    size = Learner.load(store).remembered("c").num_bytes[1]
    assert f"2: {size:,}</span>" in Path("x.html").read_text()  # what to call it
    assert "there is no class 'q'" in command("thin", store, "q", "--keep", "1").sentence


def test_a_store_is_rebuilt_from_its_exemplars(command: Command, store: Path) -> None:
    shutil.rmtree("taught")
    options = ("--method", "pixels", "--image-size", "16", "--epochs", "30")
    assert command("rebuild", store, *options).code == 0
    learner = Learner.load(store)
    assert (learner.image_size_, learner.classes_.tolist()) == (16, ["a", "c"])
    assert len(learner.history_) == 1
    assert "nothing would change" in command("rebuild", store).sentence
    command("undo", store)
    assert Learner.load(store).image_size_ == 8


def test_only_a_method_that_holds_images_out_can_reject(command: Command, store: Path) -> None:
    image = next(Path("test/a").iterdir())
    told = command("predict", store, image, "--reject").sentence
    assert "pixels cannot reject images of unknown classes; ncm and ranpac can" in told


# -------------------------------------------------------------------------------------------- card


def test_a_page_that_would_overwrite_the_store_is_refused_before_training(
    command: Command, store: Path
) -> None:
    named = store.with_name("x.html")
    store.rename(named)
    before = named.read_bytes()
    outcome = command("learn", named, "more", "--card")
    assert "the page would overwrite the store" in outcome.sentence
    assert named.read_bytes() == before


def test_a_card_tells_what_a_store_is(command: Command, store: Path) -> None:
    outcome = command("learn", store, "more", "--card")
    assert outcome.code == 0
    text = Path("x.card.md").read_text()
    assert "An image classifier of 3 classes" in text
    assert "It was never measured" in text
    assert Learner.load(store).digest() in text
    assert Path("x.html").exists()
    command("forget", store, "a", "--yes")
    write_stripes(Path("again"), "e", seed=4)
    command("learn", store, "again", "--test", "again", "--card")
    text = Path("x.card.md").read_text()
    assert "1 class forgotten" in text
    assert "% of 6 test images are correct." in text


def test_the_page_shows_confusion_and_mistakes(command: Command, store: Path) -> None:
    shutil.copytree("test/c", "wrong/a")  # every one of them is a mistake
    outcome = command("inspect", store, "--html", "x.html", "--test", "wrong")
    assert outcome.code == 0
    page = Path("x.html").read_text()
    assert "a predicted as c" in page
    assert page.count("data:image") >= 6 + 6
    told = command("inspect", store, "--test", "wrong").sentence
    assert "--test is for the page" in told
