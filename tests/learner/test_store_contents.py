"""What a store holds: all that its learner knows, nothing of the machine, none of the forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors
from PIL import Image

import remnant
from remnant.archives import read_archive
from remnant.learner import Learner, forget_in_store, learn_into_store
from remnant.learner.store import KIND, VERSION
from tests.support.small_learner import TINY, Counter, stripes, tiny_learner
from tests.support.striped_store import TESTS, expected_digest, names_in

# --------------------------------------------------------------------------------- saved and loaded


def test_a_loaded_store_answers_and_learns_as_the_saved_learner(tmp_path: Path) -> None:
    learner = tiny_learner().partial_fit(*stripes("a", "c"))
    learner.save(tmp_path / "stripes.remnant")
    assert names_in(tmp_path) == ["stripes.remnant"]
    loaded = Learner.load(tmp_path / "stripes.remnant")
    assert (loaded.predict_proba(TESTS[0]) == learner.predict_proba(TESTS[0])).all()
    assert loaded.history_ == learner.history_
    assert loaded.classes_.tolist() == learner.classes_.tolist()
    assert loaded.get_params() == learner.get_params() | {
        "accelerator": "auto",
        "threads": None,
        "quiet": False,
    }
    loaded.set_params(accelerator="cpu", threads=1, quiet=True).partial_fit(*stripes("e"))
    assert loaded.digest() == expected_digest()


def test_whole_numbers_stay_whole_numbers(tmp_path: Path) -> None:
    tiny_learner().partial_fit(*stripes(3, 1)).save(tmp_path / "x")
    assert Learner.load(tmp_path / "x").classes_.tolist() == [1, 3]


def test_learning_into_a_store_is_learning(store: Path) -> None:
    learner = learn_into_store(store, *stripes("e"), quiet=True, threads=1, test=TESTS)
    assert learner.digest() == Learner.load(store).digest() == expected_digest()
    assert learner.history[-1]["accuracy"] is not None
    assert names_in(store.parent) == [store.name, f"{store.name}.before"]


def test_stores_of_the_same_knowledge_are_equal_but_for_times(tmp_path: Path) -> None:
    contents = []
    for name in ("one", "two"):
        learner = tiny_learner().partial_fit(*stripes("a", "c"))
        learner.save(tmp_path / name)
        arrays, metadata = read_archive(tmp_path / name, KIND, VERSION)
        del metadata["history"]
        contents.append((arrays, metadata))
    assert contents[0][1] == contents[1][1]
    for name, array in contents[0][0].items():
        assert np.array_equal(array, contents[1][0][name])


# ------------------------------------------------------------------------------- what is not stored


def test_a_store_tells_nothing_of_the_machine_and_needs_no_pickle(store: Path) -> None:
    with safetensors.safe_open(store, framework="numpy") as file:
        header = json.loads(file.metadata()["remnant"])
    assert header["metadata"]["remnant"] == remnant.__version__
    assert not {"accelerator", "threads", "quiet"} & set(header["metadata"]["parameters"])
    assert str(store.parent) not in json.dumps(header)


@pytest.mark.parametrize("codec", ["raw", "jpeg", "webp", "transform"])
@pytest.mark.parametrize("ending", ["jpg", "png", "webp"])
def test_nothing_that_a_photo_tells_beside_its_pixels_is_stored(
    codec: str, ending: str, tmp_path: Path
) -> None:
    secret = "48.8584 N, 2.2945 E: my home"
    notes = Image.Exif()
    notes[0x010E] = notes[0x9286] = secret  # description, comment
    images, labels = stripes("a", "c")
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        path = tmp_path / "photos" / label / f"{index}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path, exif=notes)
        assert secret.encode() in path.read_bytes()
    store = tmp_path / "x.remnant"
    learn_into_store(store, tmp_path / "photos", **TINY | {"codec": codec})
    learn_into_store(store, tmp_path / "photos", quiet=True)
    files = list(tmp_path.glob("x.remnant*"))
    assert len(files) == 2  # the store, and the one before
    assert all(secret.encode() not in path.read_bytes() for path in files)


# --------------------------------------------------------------------------------------- forgetting


def test_the_bytes_of_a_forgotten_class_are_in_no_file(store: Path) -> None:
    learner = Learner.load(store)
    assert learner.memory_ is not None
    gone, kept = (learner.memory_.exemplars(label) for label in (1, 0))
    rows = learner.method_.state_dict()["classifier.weight"].numpy()
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), quiet=True, watchers=(Counter(9),))
    content = store.read_bytes()
    assert all(exemplar.payload in content for exemplar in (*gone, *kept))
    assert "cannot be undone" in forget_in_store(store, "c")
    assert names_in(store.parent) == [store.name]
    content = store.read_bytes()
    assert not any(exemplar.payload in content for exemplar in gone)
    assert all(exemplar.payload in content for exemplar in kept)
    assert rows[0].tobytes() in content
    assert rows[1].tobytes() not in content
    with safetensors.safe_open(store, framework="numpy") as file:
        assert '"c"' not in file.metadata()["remnant"]
    assert set(Learner.load(store).predict(TESTS[0])) == {"a"}


@pytest.mark.parametrize("gone", ["ab", "c"])
def test_all_classes_of_an_update_can_be_forgotten(tmp_path: Path, gone: str) -> None:
    path = tmp_path / "stripes.remnant"
    learn_into_store(path, *stripes("a", "b"), **TINY)
    learn_into_store(path, *stripes("c"), **TINY)
    for name in gone:
        forget_in_store(path, name)
    assert learn_into_store(path, *stripes("d"), **TINY).classes[-1] == "d"
    left = [name for name in "abc" if name not in gone]
    assert Learner.load(path).classes_.tolist() == [*left, "d"]
