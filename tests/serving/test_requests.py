from __future__ import annotations

import errno
import io
import struct
import threading
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from remnant.learner import Exemplars, Learner, learn_into_store
from remnant.learner import store as store_module
from remnant.learner.store import write_store
from remnant.learner.work_folder import only_updater
from remnant.phases import StepReport
from remnant.serving import StoreSession, build_app, uploads
from remnant.serving.guard import Rules
from remnant.serving.jobs import Observer
from tests.support.http_client import Client, pictures, png, sentence
from tests.support.small_learner import stripes, tiny_learner


def upload(content: bytes, name: str = "x.png") -> dict[str, Any]:
    return {"files": {"image": (name, content)}}


# ------------------------------------------------------------------------------------------- asking


def test_the_store_is_described_as_it_is(client: Client, store: Path) -> None:
    learner, facts = Learner.load(store), client("GET", "/api/store").json()
    assert learner.memory_ is not None
    assert facts["name"] == "stripes.remnant"
    assert facts["num_classes"] == 2
    assert facts["memory_bytes"] == learner.memory_.nbytes
    assert facts["file_bytes"] == store.stat().st_size
    assert facts["history"] == learner.history_
    classes = client("GET", "/api/classes").json()
    assert [one["name"] for one in classes] == ["a", "c"]
    assert sum(one["bytes"] for one in classes) == learner.memory_.nbytes
    assert [one["exemplars"] for one in classes] == learner.memory_.counts


def test_a_prediction_is_the_learner_s_of_the_same_file(
    client: Client, store: Path, tmp_path: Path
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (90, 60, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "photo.jpg")
    content = (tmp_path / "photo.jpg").read_bytes()
    guesses = client("POST", "/api/predict", **upload(content)).json()["guesses"]
    expected = Learner.load(store).predict_proba([tmp_path / "photo.jpg"])[0]
    assert [one["name"] for one in guesses] == ["a", "c"][:: 1 if expected[0] > expected[1] else -1]
    assert [one["probability"] for one in guesses] == sorted(map(float, expected), reverse=True)
    best = client("POST", "/api/predict?top=1", **upload(content)).json()["guesses"]
    assert best == guesses[:1]


def test_a_name_that_is_not_utf_8_is_refused(client: Client) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\n%s\r\n--x--\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = client("POST", "/api/teach", content=part % b"\xff", headers=kind)
    assert "text in a form must be UTF-8" in sentence(answer, 400)
    answer = client("POST", "/api/teach", content=part % "\xff".encode(), headers=kind)
    assert "images must be given" in sentence(answer, 422)


def test_whole_exemplars_have_no_completions(client: Client) -> None:
    page = client("GET", "/api/classes/c/exemplars").json()
    assert {one["completed"] for one in page["exemplars"]} == {None}


def test_exemplars_are_shown_as_stored_and_as_completed(pixels: None, tmp_path: Path) -> None:
    codec = {"name": "patches", "patch_size": 4}
    learner = tiny_learner(codec=codec).partial_fit(*stripes("a", "c"))
    learner.save(tmp_path / "patches.remnant")
    session = StoreSession(tmp_path / "patches.remnant")
    client, kept = Client(build_app(session, Rules())), learner.remembered("c")
    page = client("GET", "/api/classes/c/exemplars?first=1&count=2").json()
    assert page["total"] == len(kept.num_bytes)
    assert [one["rank"] for one in page["exemplars"]] == [1, 2]
    assert [one["bytes"] for one in page["exemplars"]] == kept.num_bytes[1:3]
    stored = [kept.picture(rank) for rank in range(2)]
    for form, images in (("stored", stored), ("completed", kept.completed)):
        answer = client("GET", page["exemplars"][0][form])
        assert answer.headers["content-type"] == "image/png"
        shown = np.asarray(Image.open(io.BytesIO(answer.content)))
        assert (shown == images[1]).all()
    session.close()


def test_patches_that_are_not_stored_are_transparent() -> None:
    stored = np.full((1, 8, 8, 3), 200, np.uint8)
    known = np.array([[[True, False], [False, False]]])
    picture = Exemplars(stored, known, stored, [1]).picture(0)
    assert picture.shape == (8, 8, 4)
    assert (picture[:4, :4] == [200, 200, 200, 255]).all()
    assert picture[4:].max() == picture[:, 4:].max() == 0


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/api/classes/b/exemplars", "no class 'b'"),
        ("/api/classes/b/exemplars/0/stored.png", "no class 'b'"),
        ("/api/classes/a/exemplars/99/stored.png", "6 exemplars"),
        ("/api/classes/a/exemplars/-1/completed.png", "6 exemplars"),
        ("/api/classes/../../etc/passwd/exemplars", "nothing at this address"),
        ("/api/classes/..%2F..%2Fetc%2Fpasswd/exemplars", "no class '../../etc/passwd'"),
        ("/api/jobs/1", "no job 1"),
        ("/nowhere", "nothing at this address"),
    ],
)
def test_missing_things_are_404_errors(client: Client, path: str, message: str) -> None:
    assert message in sentence(client("GET", path), 404)


ODD = ["a/b", "50 % off?", "é & <b>#1</b>", "x/exemplars", "it's"]


def test_odd_names_can_be_browsed_and_forgotten(tmp_path: Path) -> None:
    images, _ = stripes("a", "b", "c", "d", "e", per_class=2)
    path = tmp_path / "odd.remnant"
    tiny_learner().partial_fit(images, [name for name in ODD for _ in range(2)]).save(path)
    session = StoreSession(path)
    client = Client(build_app(session, Rules()))
    for name in ODD:
        page = client("GET", f"/api/classes/{quote(name, safe='')}/exemplars").json()
        assert page["name"] == name
        assert client("GET", page["exemplars"][0]["stored"]).status_code == 200
    for name in ODD[:-1]:
        assert client("DELETE", f"/api/classes/{quote(name, safe='')}").status_code == 200
    assert Learner.load(path).classes_.tolist() == ODD[-1:]
    session.close()


# ----------------------------------------------------------------------------------------- teaching


def test_a_job_updates_the_file_and_the_session(client: Client, store: Path) -> None:
    answer = client.teach(" e ", pictures("e", per_class=6))
    assert answer.status_code == 202
    job = client.finished_job(answer.json()["id"])
    assert (job["state"], job["share_done"], job["name"], job["images"]) == ("done", 1.0, "e", 6)
    assert [one["name"] for one in client("GET", "/api/classes").json()] == ["a", "c", "e"]
    assert client.predict(pictures("e", seed=9)[0]) == "e"
    assert Learner.load(store).classes_.tolist() == ["a", "c", "e"]
    names = sorted(path.name for path in store.parent.iterdir())
    assert names == [store.name, f"{store.name}.before"]


def test_a_job_equals_remnant_learn(client: Client, store: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other, folder = tmp_path / "other" / store.name, tmp_path / "photos" / "e"
    other.write_bytes(store.read_bytes())
    folder.mkdir(parents=True)
    for index, content in enumerate(pictures("e")):
        (folder / f"{index}.png").write_bytes(content)
    client.finished_job(client.teach("e", pictures("e")).json()["id"])
    learn_into_store(other, folder.parent, quiet=True)
    assert Learner.load(store).digest() == Learner.load(other).digest()


def test_a_store_made_of_a_run_of_many_tasks_can_be_taught(tmp_path: Path) -> None:
    """Its history has one entry, however many tasks there were."""
    learner = tiny_learner().partial_fit(*stripes("a")).partial_fit(*stripes("c"))
    state = learner.state_
    short = replace(state, history=state.history[-1:])
    write_store(tmp_path / "x.remnant", short)
    session = StoreSession(tmp_path / "x.remnant")
    client = Client(build_app(session, Rules()))
    answer = client.teach("e", pictures("e"))
    assert client.finished_job(answer.json()["id"])["state"] == "done"
    session.close()


def test_a_known_class_can_be_taught_more_images(client: Client) -> None:
    assert client.finished_job(client.teach("c", pictures("c")).json()["id"])["state"] == "done"
    history = client("GET", "/api/store").json()["history"]
    assert history[-1]["known_classes"] == ["c"]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Jobs wait at their second step until it is set."""
    opened, plain = threading.Event(), Observer.on_step

    def on_step(self: Observer, report: StepReport) -> None:
        assert report.step == 0 or opened.wait(60)
        plain(self, report)

    monkeypatch.setattr(Observer, "on_step", on_step)
    yield opened
    opened.set()


def test_while_a_job_runs_the_old_store_answers_and_cannot_be_changed(
    client: Client, store: Path, gate: threading.Event
) -> None:
    before = store.read_bytes()
    number = client.teach("e", pictures("e")).json()["id"]
    assert client("GET", f"/api/jobs/{number}").json()["state"] == "running"
    assert client("GET", "/api/store").json()["job"] == number
    assert client.predict(pictures("c", seed=9)[0]) == "c"
    assert client("GET", "/api/classes/a/exemplars/0/completed.png").status_code == 200
    assert "'e' is being taught" in sentence(client.teach("g", pictures("g")), 409)
    assert "'e' is being taught" in sentence(client("DELETE", "/api/classes/a"), 409)
    assert store.read_bytes() == before
    gate.set()
    assert client.finished_job(number)["state"] == "done"


def test_a_cancelled_job_leaves_the_store_unchanged(
    client: Client, store: Path, gate: threading.Event
) -> None:
    before = store.read_bytes()
    number = client.teach("e", pictures("e")).json()["id"]
    assert client("POST", f"/api/jobs/{number}/cancel").status_code == 202
    gate.set()
    assert client.finished_job(number)["state"] == "cancelled"
    assert store.read_bytes() == before
    assert "already ended" in sentence(client("POST", f"/api/jobs/{number}/cancel"), 409)
    assert client.finished_job(client.teach("e", pictures("e")).json()["id"])["state"] == "done"


def test_a_store_that_another_process_updates_is_left_alone(client: Client, store: Path) -> None:
    with only_updater(store):
        job = client.finished_job(client.teach("e", pictures("e")).json()["id"])
        message = sentence(client("DELETE", "/api/classes/a"), 409)
    assert job["state"] == "failed"
    assert job["error"] == message
    assert message.startswith("stripes.remnant is being updated by another process.")


def test_a_full_disk_is_reported_and_harms_nothing(
    client: Client, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = store.read_bytes()
    monkeypatch.setattr(store_module, "write_store", fail)
    job = client.finished_job(client.teach("e", pictures("e")).json()["id"])
    assert job["error"] == "No space left on device. The store is unchanged."
    assert store.read_bytes() == before


# -------------------------------------------------------------------------------------- bad uploads


@pytest.mark.parametrize(("path", "most"), [("/api/predict", 10), ("/api/teach", 510)])
def test_forms_of_too_many_parts_are_refused(client: Client, path: str, most: int) -> None:
    """Nobody else is served while a form is read."""
    fields = {f"field {number}": (None, "x") for number in range(most + 1)}
    assert f"number of fields is {most}" in sentence(client("POST", path, files=fields), 400)
    files = {f"file {number}": ("x.png", b"") for number in range(most + 1)}
    assert f"number of files is {most}" in sentence(client("POST", path, files=files), 400)


def test_a_field_is_no_place_for_megabytes(client: Client) -> None:
    fields = {"name": (None, "x" * 10_000)}
    assert "exceeded maximum size" in sentence(client("POST", "/api/teach", files=fields), 400)


def test_forms_that_cannot_hold_an_image_are_not_read(client: Client) -> None:
    answer = client("POST", "/api/teach", data={"name": "daisy"})
    assert "must be multipart/form-data" in sentence(answer, 415)
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client("POST", "/api/undo", headers=kind).status_code == 409  # as curl sends no body


def bomb(width: int = 40_000, height: int = 40_000) -> bytes:
    """A PNG of a few bytes that claims so many pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


NOISE = png(np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8))
BAD = {
    "text": (b"hello", "does not decode"),
    "nothing": (b"", "does not decode"),
    "truncated": (NOISE[:-900], "does not decode"),
    "bomb": (bomb(), "at most 80,000,000 pixels"),
    "column": (bomb(1, 80_000_000), "sides of at most 65,535 pixels"),
    "memory": (bomb(8_900, 8_900), "at most 168 MiB of memory while it is decoded; this PNG file"),
    "tiff": (b"II*\x00" + bytes(100), "must be a whole JPEG, PNG, WebP, BMP or GIF"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_images_are_refused_and_change_nothing(client: Client, store: Path, kind: str) -> None:
    content, message = BAD[kind]
    before = store.read_bytes()
    answer = client("POST", "/api/predict", **upload(content, "../../my photo.png"))
    assert message in sentence(answer, 422)
    assert sentence(answer, 422).startswith("'../../my photo.png' must")
    assert message in sentence(client.teach([*"ccce"], [*pictures("c"), content]), 422)
    assert client("GET", "/api/store").json()["job"] is None
    assert store.read_bytes() == before
    assert [path.name for path in store.parent.iterdir()] == [store.name]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "a class must have a name"),
        ("   ", "a class must have a name"),
        ("x" * 101, "at most 100 characters; got 101"),
        ("a\nb", "printable"),
        ("..", "printable"),
    ],
)
def test_invalid_class_names_are_refused(client: Client, name: str, message: str) -> None:
    assert message in sentence(client.teach(name, pictures("e")), 422)


def test_too_many_bytes_or_images_are_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = uploads.LIMITS.model_copy(update={"images": 2, "image_bytes": 1 << 20})
    monkeypatch.setattr(uploads, "LIMITS", few)
    large = upload(bytes((1 << 20) + 1), "large.png")
    message = "'large.png' must have at most 1 MiB; it has more. Send a smaller file."
    assert sentence(client("POST", "/api/predict", **large), 413) == message
    assert "at most 2 images; got 3" in sentence(client.teach("e", pictures("e")), 413)


def test_a_full_temporary_folder_is_told(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("starlette.datastructures.UploadFile.write", fail)
    answer = client("POST", "/api/predict", **upload(pictures("a")[0]))
    assert sentence(answer, 507) == "the upload could not be held (No space left on device)."


def test_an_uploaded_image_is_decoded_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, plain = [], Image.open
    monkeypatch.setattr(Image, "open", lambda *a, **k: opened.append(1) or plain(*a, **k))
    assert client("POST", "/api/predict", **upload(NOISE)).status_code == 200
    assert len(opened) == 1
    client.finished_job(client.teach("e", pictures("e", per_class=3)).json()["id"])
    assert len(opened) == 1 + 3


def test_a_missing_part_of_a_form_is_named(client: Client) -> None:
    assert "image must be given" in sentence(client("POST", "/api/predict"), 422)
    assert "image must be a file" in sentence(
        client("POST", "/api/predict", files={"image": (None, "x")}), 422
    )
    form = {"name": (None, "e")}
    assert "images must be given" in sentence(client("POST", "/api/teach", files=form), 422)
    assert "top" in sentence(client("POST", "/api/predict?top=0", **upload(NOISE)), 422)
    assert "does not support this method" in sentence(client("PUT", "/api/store"), 405)


# ------------------------------------------------------------------------ forgetting and replacing


def test_a_class_is_forgotten_and_the_last_one_is_not(client: Client, store: Path) -> None:
    answer = client("DELETE", "/api/classes/a")
    assert "cannot be undone" in answer.json()["message"]
    assert Learner.load(store).classes_.tolist() == ["c"]
    assert [one["name"] for one in client("GET", "/api/classes").json()] == ["c"]
    assert "no class 'a'" in sentence(client("DELETE", "/api/classes/a"), 404)
    assert "only class" in sentence(client("DELETE", "/api/classes/c"), 409)


def test_classes_that_are_numbers_stay_numbers(tmp_path: Path) -> None:
    path = tmp_path / "numbers.remnant"
    tiny_learner().partial_fit(*stripes(0, 2)).save(path)
    session = StoreSession(path)
    client = Client(build_app(session, Rules()))
    assert "whole numbers" in sentence(client.teach("four", pictures("e")), 422)
    assert client.finished_job(client.teach("4", pictures("e")).json()["id"])["state"] == "done"
    assert client("DELETE", "/api/classes/2").status_code == 200
    assert Learner.load(path).classes_.tolist() == [0, 4]
    session.close()


def test_a_store_that_is_replaced_damaged_or_removed_is_noticed(
    client: Client, store: Path
) -> None:
    learn_into_store(store, *stripes("e"), quiet=True)
    content = store.read_bytes()
    assert client("GET", "/api/store").json()["num_classes"] == 3
    store.write_bytes(content[:-100])
    assert sentence(client("GET", "/api/store"), 503).startswith(
        "stripes.remnant is not a readable"
    )
    store.unlink()
    assert sentence(client("GET", "/api/classes"), 503).startswith("stripes.remnant does not exist")
    store.write_bytes(content)
    assert client("GET", "/api/store").json()["num_classes"] == 3
