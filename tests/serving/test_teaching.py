"""Several classes at once, the guard, undo, plans and scores, through the API."""

from __future__ import annotations

from pathlib import Path

import pytest

from remnant.learner import Learner
from tests.support.http_client import Client, as_files, pictures, sentence


def test_several_classes_are_taught_in_one_job(client: Client, store: Path) -> None:
    names = ["e", "e", "g", "g", "g"]
    job = client.taught(names, pictures("e", per_class=2) + pictures("g", per_class=3))
    assert (job["state"], job["name"], job["classes"]) == ("done", "e and g", ["e", "g"])
    assert job["images"] == 5
    learner = Learner.load(store)
    assert learner.classes_.tolist() == ["a", "c", "e", "g"]
    assert len(learner.history_) == 2
    assert job["update"] == learner.history_[-1]


def test_many_classes_are_shortened_for_display(client: Client) -> None:
    names = ["d", "e", "f", "g"]
    job = client.taught(names, pictures(*names, per_class=1))
    assert job["name"] == "d, e and 2 more"
    assert job["classes"] == names


def test_names_must_be_one_or_as_many_as_images(client: Client) -> None:
    answer = client.teach(["e", "g"], pictures("e", per_class=3))
    assert "got 2 names and 3 images" in sentence(answer, 422)
    assert "a class must have a name" in sentence(client.teach(["e", " "], pictures("e", "g")), 422)


# --------------------------------------------------------------------------------------- bad images


def test_a_broken_image_does_not_stop_the_others(client: Client) -> None:
    images = [*pictures("e", per_class=3), b"no picture", *pictures("g", per_class=3)]
    job = client.taught([*"eee", "e", *"ggg"], images)
    assert (job["state"], job["images"]) == ("done", 6)
    assert job["notes"] == ["1 unreadable image is left out: '3.png'."]
    assert job["update"]["images"] == 6
    scored = client(
        "POST", "/api/score", data={"name": [*"eee", "e", *"ggg"]}, files=as_files(images)
    ).json()
    assert scored["images"] == 6
    assert scored["notes"] == job["notes"]


def test_mistakes_have_their_places_in_the_request(client: Client) -> None:
    images = [b"no picture", *pictures("a", per_class=2)]
    answer = client("POST", "/api/score", data={"name": "c"}, files=as_files(images)).json()
    assert sorted(one["index"] for one in answer["mistakes"]) == [1, 2]
    assert sorted(one["file"] for one in answer["mistakes"]) == ["'1.png'", "'2.png'"]


def test_a_class_of_broken_images_alone_is_refused(client: Client) -> None:
    answer = client.teach([*"eeg"], [*pictures("e", per_class=2), b"no picture"])
    assert sentence(answer, 422).startswith("'2.png' must be a whole JPEG")


def test_copies_in_two_classes_are_told(client: Client) -> None:
    (picture,) = pictures("e", per_class=1)
    job = client.taught(["e", "g"], [picture, picture])
    assert job["notes"] == ["the same picture is in two classes: '0.png' and '1.png'."]


# ----------------------------------------------------------------------------------- guard and undo


def test_a_guard_refuses_an_update_that_takes_too_much(client: Client, store: Path) -> None:
    """Many images of one class under another name."""
    before = store.read_bytes()
    job = client.taught("e", pictures("a", per_class=40), guard="0")
    assert job["state"] == "refused"
    assert "would fall from" in job["error"]
    assert str(store) not in job["error"]
    assert store.read_bytes() == before
    assert client("GET", "/api/store").json()["can_undo"] is False
    assert client.taught("e", pictures("a", per_class=40), guard="100")["state"] == "done"


@pytest.mark.parametrize("guard", ["-1", "101", "much"])
def test_a_guard_must_be_points(client: Client, guard: str) -> None:
    assert "guard" in sentence(client.teach("e", pictures("e"), guard=guard), 422)


def test_the_last_update_is_undone_once(client: Client, store: Path) -> None:
    before = store.read_bytes()
    assert "nothing to undo" in sentence(client("POST", "/api/undo"), 409)
    client.taught("e", pictures("e"))
    assert client("GET", "/api/store").json()["can_undo"] is True
    answer = client("POST", "/api/undo")
    assert answer.json()["message"].startswith(
        "stripes.remnant is as it was before its last update"
    )
    assert store.read_bytes() == before
    assert [one["name"] for one in client("GET", "/api/classes").json()] == ["a", "c"]
    assert client("GET", "/api/store").json()["can_undo"] is False
    assert str(store) not in sentence(client("POST", "/api/undo"), 409)


def test_nothing_is_undone_after_a_class_was_forgotten(client: Client) -> None:
    client.taught("e", pictures("e"))
    client("DELETE", "/api/classes/e")
    assert client("GET", "/api/store").json()["can_undo"] is False


# ----------------------------------------------------------------------------------- plan and score


def test_a_plan_tells_what_is_used_and_how_long_the_last_update_took(
    client: Client, store: Path
) -> None:
    plan = client("GET", "/api/plan?images=7").json()
    last = Learner.load(store).history_[-1]
    assert (plan["method"], plan["image_size"], plan["images"]) == ("pixels", 8, 7)
    assert (plan["encoder"], plan["licence"]) == (None, None)
    assert plan["seconds"] == last["seconds"]
    assert "the last update, of 12 images, took" in plan["basis"]


def test_scores_are_the_learner_s(client: Client, store: Path) -> None:
    """Two images have the wrong name."""
    before = store.read_bytes()
    images = pictures("a", per_class=4, seed=5) + pictures("c", per_class=3, seed=6)
    names = ["a"] * 4 + ["c"] * 3
    names[1] = "c"
    names[5] = "a"
    answer = client("POST", "/api/score", data={"name": names}, files=as_files(images)).json()
    assert answer["images"] == 7
    assert answer["accuracy"] == pytest.approx(100 * 5 / 7)
    assert answer["classes"] == [
        {"name": "a", "images": 4, "accuracy": 75.0, "mistaken_for": "c (1)"},
        {
            "name": "c",
            "images": 3,
            "accuracy": pytest.approx(100 * 2 / 3),
            "mistaken_for": "a (1)",
        },
    ]
    mistakes = {one["index"]: one for one in answer["mistakes"]}
    assert {index: (one["name"], one["predicted"]) for index, one in mistakes.items()} == {
        1: ("c", "a"),
        5: ("a", "c"),
    }
    assert mistakes[1]["file"] == "'1.png'"
    sureness = [one["probability"] for one in answer["mistakes"]]
    assert sureness == sorted(sureness, reverse=True)
    assert store.read_bytes() == before


def test_an_unknown_class_is_not_scored(client: Client) -> None:
    answer = client("POST", "/api/score", data={"name": "x"}, files=as_files(pictures("a")))
    assert "must hold classes that the store knows; got 'x'" in sentence(answer, 422)


def test_a_method_that_cannot_tell_strangers_says_so(client: Client) -> None:
    answer = client("POST", "/api/predict", files={"image": ("x.png", pictures("a")[0])})
    assert answer.json()["is_known"] is None
