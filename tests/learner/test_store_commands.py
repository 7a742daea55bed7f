"""What a practitioner types: answers, and one sentence with the store as it was for what fails."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from remnant.archives import read_archive, write_archive
from remnant.learner import Learner, forget_in_store
from remnant.learner.epoch_ends import EpochEnds
from remnant.learner.store import KIND, VERSION
from remnant.learner.work_folder import only_updater
from remnant.methods import METHODS
from remnant.phases import StepReport
from tests.support.broken_pictures import bomb, truncated
from tests.support.command_line import Command, largest_file
from tests.support.small_learner import TaughtPixels, stripes, tiny_learner, write_stripes

# As one would type what tiny_learner is told.
TINY = [
    *("--method", "pixels", "--image-size", "8", "--epochs", "4", "--batch-size", "4"),
    *("--budget", "6images/class", "--accelerator", "cpu", "--set", "memory.codec=raw"),
    *("--set", 'augment.train="none"', "--set", "training.threads=1"),
    *("--set", "method.first.optimizer.lr=0.02"),
]
OPTIONS = {
    "memory.selection": "random",
    "training.threads": 1,
    "training.checkpoint_every_steps": 2,
}


@pytest.fixture(scope="module")
def kept_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of the classes a and c, and a folder of class e to teach it."""
    folder = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS, "pixels", TaughtPixels)
        taught = write_stripes(folder / "taught", "a", "c")
        tiny_learner(options=OPTIONS).partial_fit(taught).save(folder / "stripes.remnant")
    write_stripes(folder / "more", "e")
    return folder


@pytest.fixture
def store(kept_store: Path, tmp_path: Path, command: Command) -> Path:
    return shutil.copytree(kept_store, tmp_path, dirs_exist_ok=True) / "stripes.remnant"


def digest_of_both() -> str:
    """Of a learner that was taught the same in memory."""
    learner = tiny_learner(options=OPTIONS).partial_fit(*stripes("a", "c"))
    return learner.partial_fit(*stripes("e")).digest()


# ---------------------------------------------------------------------------------------- learning


def test_learning_tells_what_was_chosen_and_what_came_of_it(
    command: Command, tmp_path: Path
) -> None:
    write_stripes(tmp_path / "taught", "a", "c")
    write_stripes(tmp_path / "test", "a", "c", per_class=3, seed=9)
    outcome = command("learn", "new/stripes.remnant", "taught", "--test", "test", *TINY)
    assert outcome.code == 0, outcome.err
    chosen, *epochs, suggested = outcome.err.splitlines()
    assert chosen.startswith("pixels: images of 8 px; memory of 6images/class as raw; 4 epochs")
    assert [re.findall(r"epoch \d/4", line) for line in epochs] == [
        [f"epoch {number}/4"] for number in (1, 2, 3, 4)
    ]
    assert suggested == "next: remnant predict new/stripes.remnant IMAGE"
    assert re.search(r"^New classes +a, c\b", outcome.out, re.M)
    assert re.search(r"^Images +12\b", outcome.out, re.M)
    assert re.search(r"^Accuracy +\d+\.\d %", outcome.out, re.M)
    assert re.search(r"^Memory +2\.2 KiB of 2\.2 KiB: 12 exemplars as raw", outcome.out, re.M)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["stripes.remnant"]


def test_a_store_is_taught_as_a_learner_is(command: Command, store: Path) -> None:
    outcome = command("learn", store, "more")
    assert outcome.code == 0, outcome.err
    assert "Accuracy" not in outcome.out  # without a test nobody knows
    assert Learner.load(store).digest() == digest_of_both()


def test_settings_left_out_are_those_of_the_store(command: Command, store: Path) -> None:
    outcome = command("learn", store, "more", "--set", "training.checkpoint_every_steps=3")
    assert outcome.code == 0, outcome.err
    assert Learner.load(store).options == OPTIONS | {"training.checkpoint_every_steps": 3}


def test_an_interrupted_update_says_how_to_continue_and_continues(
    command: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = store.read_bytes()
    seen: list[int] = []

    def interrupt(_: object, report: StepReport) -> None:
        seen.append(report.step)
        if report.step == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EpochEnds, "on_step", interrupt)
        outcome = command("learn", store, "more")
    assert outcome.code == 130
    assert outcome.err.splitlines()[-1] == (
        "stopped. Run the same command again to continue from the last checkpoint: "
        f"remnant learn {store} more"
    )
    assert store.read_bytes() == before
    assert "if stopped, run the same command again" in command("inspect", store).out
    monkeypatch.setattr(EpochEnds, "on_step", lambda _, report: seen.append(report.step))
    assert command("learn", store, "more").code == 0
    assert seen.index(5) < seen.index(4, 5), (
        "it continued from a checkpoint, not from the beginning"
    )
    assert 0 not in seen[1:]
    assert Learner.load(store).digest() == digest_of_both()


def test_an_update_stopped_before_its_first_checkpoint_says_that_it_starts_over(
    command: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object, report: StepReport) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EpochEnds, "on_step", interrupt)
    outcome = command("learn", store, "more")
    assert outcome.code == 130
    assert outcome.err.splitlines()[-1] == (
        "stopped. There was no checkpoint yet, so running the same command again starts over: "
        f"remnant learn {store} more"
    )


def test_unusual_images_and_small_classes_are_learned(command: Command, store: Path) -> None:
    folder = store.parent / "unusual" / "e"
    folder.mkdir(parents=True)
    levels = np.full((9, 9), 40_000, np.int32)
    Image.fromarray(levels).convert("I;16").save(folder / "16-bit.png")
    Image.new("CMYK", (12, 9), (0, 0, 0, 255)).save(folder / "print.jpg")
    frames = [Image.new("RGB", (12, 12), colour) for colour in ("red", "blue")]
    frames[0].save(folder / "moving.gif", save_all=True, append_images=frames[1:])
    assert command("learn", store, "unusual").code == 0
    write_stripes(store.parent / "single", "g", per_class=1)
    assert command("learn", store, "single").code == 0
    rows = json.loads(command("inspect", store, "--json").out)["classes"]
    assert [(row["name"], row["exemplars"]) for row in rows][2:] == [("e", 3), ("g", 1)]


# -------------------------------------------------------------------------------- what is refused


def add(folder: str, name: str, content: bytes) -> Callable[[Path], None]:
    def write(here: Path) -> None:
        path = here / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return write


def damage(here: Path) -> None:
    content = bytearray((here / "stripes.remnant").read_bytes())
    content[-5] ^= 1
    (here / "stripes.remnant").write_bytes(content)


def make_newer(here: Path) -> None:
    arrays, metadata = read_archive(here / "stripes.remnant", KIND, VERSION)
    write_archive(here / "stripes.remnant", KIND, VERSION + 1, arrays, metadata)


def empty(name: str) -> Callable[[Path], None]:
    return lambda here: (here / name).mkdir(parents=True)


def nothing(here: Path) -> None:
    pass


def other_classes(here: Path) -> None:
    write_stripes(here / "test", "a", "g")


def use(here: Path) -> None:
    """The store cannot be replaced by a folder."""
    (here / "stripes.remnant").unlink()
    write_stripes(here / "stripes.remnant", "a")


LEARN = "learn stripes.remnant more"
STRICT = f"{LEARN} --strict"
REFUSED: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "not an image": (add("more/e", "x.png", b"text"), STRICT, "more/e/x.png must be a whole JPEG"),
    "an empty file": (add("more/e", "x.jpg", b""), STRICT, "more/e/x.jpg must be a whole JPEG"),
    "truncated": (add("more/e", "x.jpg", truncated()), STRICT, "x.jpg must be a whole JPEG"),
    "a bomb": (add("more/e", "x.png", bomb()), STRICT, "must have at most 80,000,000 pixels"),
    "no folder": (nothing, "learn stripes.remnant nowhere", "nowhere does not exist"),
    "empty folder": (empty("void"), "learn stripes.remnant void", "neither folders nor images"),
    "empty class": (empty("more/f"), LEARN, "more/f must hold the images of its class"),
    "no classes": (nothing, "learn stripes.remnant more/e", "whose sub-folders are the classes"),
    "unknown test classes": (other_classes, f"{LEARN} --test test", "the update; got 'g'"),
    "no test folder": (nothing, f"{LEARN} --test nowhere", "nowhere does not exist"),
    "a damaged store": (damage, LEARN, "stripes.remnant is damaged: its checksum"),
    "a damaged store, asked": (damage, "predict stripes.remnant more", "is damaged"),
    "a damaged store, looked at": (damage, "inspect stripes.remnant", "is damaged"),
    "a damaged store, forgetting": (damage, "forget stripes.remnant a --yes", "is damaged"),
    "a damaged store, exported": (damage, "export stripes.remnant x.onnx", "is damaged"),
    "a newer store": (make_newer, LEARN, "has store format version 2"),
    "a newer store, asked": (make_newer, "predict stripes.remnant more", "Use the remnant version"),
    "a folder for a store": (use, LEARN, "must be a store, which is one file; it is a folder"),
    "another method": (nothing, f"{LEARN} --method er", "method was fixed by the first update"),
    "another size": (nothing, f"{LEARN} --image-size 16", "image_size was fixed by the first"),
    "another codec": (nothing, f"{LEARN} --set memory.codec=webp", "memory.codec was fixed"),
    "no such setting later": (
        nothing, f"{LEARN} --set memory.bugdet=3", "you mean memory.budget?"
    ),
    "no such setting": (nothing, "learn x more --set memory.bugdet=3", "you mean memory.budget?"),
    "a foreign setting": (
        nothing,
        "learn x more --set data.seed=1",
        "must begin with method., memory., augment. or training.; got 'data.seed'. Leave it out",
    ),
    "a schedule": (nothing, "learn x more --set method.first.epochs=3", "Give epochs to the"),
    "two lengths": (nothing, f"{LEARN} --epochs 5 --minutes 1", "--epochs or --minutes, not both"),
    "no epochs": (nothing, f"{LEARN} --epochs 0", "epochs must be at least 1; got 0"),
    "no method": (nothing, "learn x more --method bima", "Did you mean bimae?"),
    "a small budget": (
        nothing, "learn x more --budget 9B/class --set memory.codec=raw", "must hold"
    ),
    "no store": (nothing, "predict x.remnant more", "x.remnant does not exist"),
    "no such class": (nothing, "forget stripes.remnant b --yes", "there is no class 'b'"),
    "nobody to ask": (nothing, "forget stripes.remnant a", "needs confirmation"),
    "nothing to ask about": (nothing, "predict stripes.remnant", "give at least one image"),
    "no class to name": (nothing, "predict stripes.remnant more --top 0", "at least 1; got 0"),
    "two forms": (nothing, "predict stripes.remnant more --json --csv", "--json or --csv, not bo"),
    "a page on a folder": (nothing, "inspect stripes.remnant --html more", "more is a folder"),
    "a page on the store": (
        nothing, "inspect stripes.remnant --html stripes.remnant", "would overwrite the store"
    ),
    "a model on the store": (
        nothing, "export stripes.remnant stripes.remnant", "would overwrite the store"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_ends_in_a_sentence_and_the_store_is_as_it_was(
    command: Command, store: Path, name: str
) -> None:
    prepare, line, told = REFUSED[name]
    prepare(store.parent)
    before = {path: path.read_bytes() for path in store.parent.rglob("*") if path.is_file()}
    assert told in command(*line.split()).sentence
    assert not [*store.parent.glob("*.work")]
    after = {path: path.read_bytes() for path in store.parent.rglob("*") if path.is_file()}
    assert after == before


def test_a_budget_too_small_for_coded_images_leaves_no_folder_and_names_one_that_works(
    command: Command, store: Path
) -> None:
    learn = ("learn", "x.remnant", "more", "--epochs", "1", "--set", "memory.codec=webp")
    outcome = command(*learn, "--budget", "9B/class")
    assert outcome.code == 2
    assert not [*store.parent.glob("x.remnant*")]
    advised = outcome.err.split('"')[1]
    assert command(*learn, "--budget", advised).code == 0


def test_a_store_that_cannot_be_begun_leaves_no_folder(command: Command, tmp_path: Path) -> None:
    assert "does not exist" in command("learn", "new/folder/x.remnant", "nowhere").sentence
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_ends_in_a_sentence_and_the_same_command_goes_on(
    command: Command, store: Path
) -> None:
    before = store.read_bytes()
    with largest_file(len(before) // 4):
        outcome = command("learn", store, "more")
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert outcome.err.splitlines()[-1].endswith(
        "The store is unchanged; fix this and run the same command again."
    )
    assert store.read_bytes() == before
    assert not list(store.parent.rglob("*.tmp"))
    assert command("learn", store, "more").code == 0


def test_two_processes_do_not_update_one_store(command: Command, store: Path) -> None:
    before = store.read_bytes()
    with only_updater(store):
        for line in (("learn", store, "more"), ("forget", store, "a", "--yes")):
            assert "is being updated by another process" in command(*line).sentence
        assert command("predict", store, "more").code == 0
    assert store.read_bytes() == before


# ------------------------------------------------------------------------------------------ asking


def test_images_and_folders_are_answered_best_first(command: Command, store: Path) -> None:
    outcome = command("predict", store, "taught/c/06.png", "taught/a")
    lines = outcome.out.splitlines()
    assert (outcome.code, outcome.err, len(lines)) == (0, "", 7)
    assert re.fullmatch(r"taught/c/06\.png: c \d+\.\d %, a \d+\.\d %", lines[0])
    assert re.fullmatch(r"taught/a/00\.png: a \d+\.\d %, c \d+\.\d %", lines[1])
    assert command("predict", store, "taught/a", "--top", "1").out.count(" %") == 6
    found = json.loads(command("predict", store, "taught", "--json").out)
    assert [one["file"] for one in found["answers"][:2]] == ["taught/a/00.png", "taught/a/01.png"]
    expected = Learner.load(store).predict_proba("taught/a")[0]
    for best, probability in zip(found["answers"][0]["top"], expected, strict=True):
        assert best["probability"] == pytest.approx(float(probability), abs=1e-6)
    rows = list(csv.DictReader(io.StringIO(command("predict", store, "taught/a", "--csv").out)))
    assert len(rows) == 12
    assert (rows[0]["file"], rows[0]["rank"], rows[0]["class"]) == ("taught/a/00.png", "1", "a")


def test_a_file_that_cannot_be_read_spoils_no_other(command: Command, store: Path) -> None:
    add("taught/a", "bad.png", b"text")(store.parent)
    (store.parent / "void").mkdir()
    outcome = command("predict", store, "taught", "gone.png", "void")
    assert outcome.code == 2
    assert len(outcome.out.splitlines()) == 12
    bad, gone, void = outcome.err.splitlines()
    assert bad.startswith("remnant: taught/a/bad.png must be a whole JPEG")
    assert gone.startswith("remnant: gone.png cannot be read")
    assert void.startswith("remnant: void holds no images")
    found = command("predict", store, "taught", "gone.png", "--json")
    assert found.code == 2
    document = json.loads(found.out)
    assert len(document["answers"]) == 12
    assert [one["file"] for one in document["failures"]] == ["taught/a/bad.png", "gone.png"]
    assert command("predict", store, "gone.png", "--csv").out == "file,rank,class,probability\n"


def test_a_name_that_is_no_text_is_shown_all_the_same(command: Command, store: Path) -> None:
    odd = store.parent / "odd\udcff.png"
    shutil.copy(store.parent / "taught" / "a" / "00.png", odd)
    assert command("predict", store, odd).out.startswith(f"{store.parent}/odd\\xff.png: a ")


# ----------------------------------------------------------------------------- looking, forgetting


def test_a_look_at_a_store_tells_classes_bytes_and_updates(command: Command, store: Path) -> None:
    outcome = command("inspect", store)
    assert f"{store}: 2 classes, " in outcome.out
    assert "memory: 2.2 KiB of 2.2 KiB: 12 exemplars as raw" in outcome.out
    assert re.search(r"^a +6 +1,152$", outcome.out, re.M)
    assert re.search(r"^1 +\d{4}-\d\d-\d\d +a, c +12 +– +2\.2 KiB$", outcome.out, re.M)
    assert max(len(line) for line in outcome.out.splitlines()[1:]) <= 80
    facts = json.loads(command("inspect", store, "--json").out)
    assert [row["name"] for row in facts["classes"]] == ["a", "c"]
    assert facts["memory"]["used_bytes"] == 2304
    assert facts["history"][0]["images"] == 12
    assert command("inspect", store, "--html", "pages/store.html").out.endswith(
        "page: pages/store.html\n"
    )
    assert "stripes.remnant" in Path("pages/store.html").read_text()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_forgetting_is_asked_about_and_told(
    command: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = store.read_bytes()
    monkeypatch.setattr(sys, "stdin", Terminal("no\n"))
    refused = command("forget", store, "a")
    assert refused.code == 1
    assert "This cannot be undone. [y/N]" in refused.err
    assert store.read_bytes() == before
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    outcome = command("forget", store, "a")
    assert "'a' is forgotten: its 6 exemplars" in outcome.out
    assert "cannot be undone" in outcome.out
    assert Learner.load(store).classes_.tolist() == ["c"]
    assert "1 forgotten" in command("inspect", store).out


def test_classes_that_are_numbers_are_forgotten_by_their_number(
    command: Command, tmp_path: Path
) -> None:
    tiny_learner().partial_fit(*stripes(1, 3)).save(tmp_path / "x.remnant")
    assert command("forget", "x.remnant", "3", "--yes").code == 0
    assert Learner.load(tmp_path / "x.remnant").classes_.tolist() == [1]
    assert "there is no class 'three'" in command("forget", "x.remnant", "three", "--yes").sentence


def test_a_store_whose_exemplars_were_taken_out_is_shown_too(
    command: Command, tmp_path: Path
) -> None:
    learner = tiny_learner().partial_fit(*stripes("a", "c"))
    for name in ("a", "c"):
        assert learner.memory_ is not None
        learner.memory_.remove_class(learner.classes_.tolist().index(name))
    learner.save(tmp_path / "x.remnant")
    outcome = command("inspect", "x.remnant", "--html", "x.html")
    assert outcome.code == 0
    assert re.search(r"^a +0 +0$", outcome.out, re.M)
    assert forget_in_store(tmp_path / "x.remnant", "a").startswith("'a' is forgotten")
