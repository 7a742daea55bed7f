from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import torch
from PIL import Image

import remnant
from remnant.archives import read_archive, write_archive
from remnant.errors import InputError
from remnant.learner import Learner, defaults, forget_in_store, learn_into_store
from remnant.learner import store as store_module
from remnant.learner import work_folder as work_folder_module
from remnant.learner.learner_state import LearnerState
from remnant.learner.store import KIND, VERSION
from remnant.learner.work_folder import only_updater, work_folder
from remnant.phases import StepReport
from tests.support.small_learner import TINY, Counter, stripes, tiny_learner

SUPPORT = Path(__file__).parents[1] / "support"
TESTS = stripes("a", "c", "e", per_class=3, seed=9)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "stripes.remnant"
    learn_into_store(path, *stripes("a", "c"), **TINY)
    return path


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def expected_digest() -> str:
    return tiny_learner().partial_fit(*stripes("a", "c")).partial_fit(*stripes("e")).digest()


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


def test_a_store_tells_nothing_of_the_machine_and_needs_no_pickle(store: Path) -> None:
    with safetensors.safe_open(store, framework="numpy") as file:
        header = json.loads(file.metadata()["remnant"])
    assert header["metadata"]["remnant"] == remnant.__version__
    assert not {"accelerator", "threads", "quiet"} & set(header["metadata"]["parameters"])
    assert str(store.parent) not in json.dumps(header)


def test_learning_into_a_store_is_learning(store: Path) -> None:
    learner = learn_into_store(store, *stripes("e"), quiet=True, threads=1, test=TESTS)
    assert learner.digest() == Learner.load(store).digest() == expected_digest()
    assert learner.history[-1]["accuracy"] is not None
    assert names_in(store.parent) == [store.name, f"{store.name}.before"]


# ------------------------------------------------------------------------------------ refused files


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def turn_to_text(path: Path) -> None:
    path.write_text("not a store")


def rewritten(**changes: Any) -> Callable[[Path], None]:
    def rewrite(path: Path) -> None:
        arrays, metadata = read_archive(path, KIND, VERSION)
        write_archive(path, KIND, VERSION, arrays, metadata | changes)

    return rewrite


def make_newer(path: Path) -> None:
    arrays, metadata = read_archive(path, KIND, VERSION)
    write_archive(path, KIND, VERSION + 1, arrays, metadata)


def make_a_memory(path: Path) -> None:
    write_archive(path, "memory", 1, {}, {})


def swap_weights(path: Path) -> None:
    arrays, metadata = read_archive(path, KIND, VERSION)
    arrays["model/classifier.weight"] = arrays["model/classifier.weight"][:, :5]
    write_archive(path, KIND, VERSION, arrays, metadata)


def revised(change: Callable[[dict[str, Any], Any], None]) -> Callable[[Path], None]:
    """A store with a right checksum, as a stranger may make it."""

    def revise(path: Path) -> None:
        arrays, metadata = read_archive(path, KIND, VERSION)
        change(arrays, metadata)
        write_archive(path, KIND, VERSION, arrays, metadata)

    return revise


def with_nan(arrays: dict[str, Any], metadata: Any) -> None:
    arrays["model/classifier.weight"] = arrays["model/classifier.weight"] * np.nan


def with_infinity(arrays: dict[str, Any], metadata: Any) -> None:
    arrays["model/classifier.bias"] = np.full_like(arrays["model/classifier.bias"], np.inf)


def with_other_types(arrays: dict[str, Any], metadata: Any) -> None:
    arrays["model/classifier.bias"] = arrays["model/classifier.bias"].astype(np.float64)


def with_one_array_more(arrays: dict[str, Any], metadata: Any) -> None:
    arrays["model/more"] = np.zeros(3, np.float32)


def with_a_label_beyond(arrays: dict[str, Any], metadata: Any) -> None:
    arrays["memory/labels"] = arrays["memory/labels"] + 1


def with_other_names(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["memory"]["names"] = ["a", "x"]


def with_more_seen(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["memory"]["num_seen_classes"] = 10**9


def with_a_huge_memory(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["memory"]["image_shape"] = [8192, 8192, 3]
    metadata["memory"]["config"]["codec"] = {"name": "jpeg", "quality": 75}


def with_a_name_twice(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["classes"] = ["a", "a"]


def with_a_listed_method(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["settings"]["method"]["name"] = ["pixels"]


def with_a_grouped_parameter(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["parameters"]["method"] = {"name": "pixels"}


def with_numbered_options(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["parameters"]["options"] = 7


def with_a_huge_mean(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["settings"]["mean"] = [1e308, 0, 0]


def with_no_deviation(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["settings"]["std"] = [0, 0, 0]


def with_a_negative_task(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["task_sizes"] = [3, -1]


def with_an_odd_history(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["history"] = [{"when": 7}]


def drop_a_setting(path: Path) -> None:
    arrays, metadata = read_archive(path, KIND, VERSION)
    metadata["settings"]["method"]["from_the_future"] = 1
    write_archive(path, KIND, VERSION, arrays, metadata | {"remnant": "0.9.0"})


def raise_the_budget(path: Path) -> None:
    """Only where the memory says it, so that it could hold anything."""
    arrays, metadata = read_archive(path, KIND, VERSION)
    metadata["memory"]["config"]["budget"] = "900GiB"
    write_archive(path, KIND, VERSION, arrays, metadata)


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (flip_a_byte, "checksum does not match"),
    (cut_short, "not a readable remnant file"),
    (empty, "not a readable remnant file"),
    (turn_to_text, "not a readable remnant file"),
    (make_newer, "store format version 2; this remnant reads version 1"),
    (make_a_memory, "must be a remnant store file; it is a memory file"),
    (swap_weights, "weights that do not fit its settings"),
    (rewritten(classes=["a"]), "names 1 classes for 2 outputs"),
    (rewritten(settings=7), "cannot be used: settings must be a group of settings"),
    (rewritten(memory={}), "does not hold a usable memory"),
    (raise_the_budget, "its budget is 900GiB, not "),
    (revised(with_nan), "numbers that are not finite"),
    (revised(with_infinity), "numbers that are not finite"),
    (revised(with_other_types), r"must be of torch\.float32; it is of float64"),
    (revised(with_one_array_more), "model/more is superfluous"),
    (revised(with_a_label_beyond), "names other classes"),
    (revised(with_other_names), "names other classes"),
    (revised(with_more_seen), "it has seen 1,000,000,000 classes of 2"),
    (revised(with_a_huge_memory), r"its images must be \(8, 8, 3\)"),
    (revised(with_a_name_twice), "names a class twice"),
    (revised(with_a_listed_method), r"method\.name must be one of"),
    (revised(with_a_grouped_parameter), "method must be text"),
    (revised(with_numbered_options), "options"),
    (revised(with_a_huge_mean), "mean of images must be between"),
    (revised(with_no_deviation), "deviation of images must be from"),
    (revised(with_a_negative_task), "must be at least 0"),
    (revised(with_an_odd_history), "has an invalid entry for update 1"),
    (drop_a_setting, r"from_the_future is not a setting.*written by remnant 0\.9\.0"),
]


@pytest.mark.parametrize(("damage", "told"), DAMAGES)
def test_a_store_that_cannot_be_used_is_told_and_left_as_it_is(
    store: Path, damage: Callable[[Path], None], told: str
) -> None:
    damage(store)
    content = store.read_bytes()
    for use in (
        lambda: Learner.load(store),
        lambda: learn_into_store(store, *stripes("e"), quiet=True),
        lambda: forget_in_store(store, "a"),
    ):
        with pytest.raises(InputError, match=told):
            use()
    assert store.read_bytes() == content
    assert names_in(store.parent) == [store.name]


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("dytox", {"network": {"width": 20000, "head_width": 20000, "mlp_width": 10**9}}),
        ("dytox", {"network": {"depth": 10**9}}),
        ("ranpac", {"num_projected": 10**12}),
        ("er", {"backbone": {"name": "conv", "channels": [10**9, 10**9]}}),
    ],
)
def test_settings_of_a_network_beyond_all_memory_are_refused_at_no_cost(
    store: Path, method: str, settings: dict[str, Any]
) -> None:
    def enlarge(arrays: dict[str, Any], metadata: Any) -> None:
        first = metadata["settings"]["method"]["first"]
        metadata["settings"]["method"] = {"name": method, "first": first, **settings}

    revised(enlarge)(store)
    with pytest.raises(InputError, match=r"weights that do not fit|cannot be used"):
        Learner.load(store)


def test_weights_that_overflow_are_told(store: Path) -> None:
    def enlarge(arrays: dict[str, Any], metadata: Any) -> None:
        weight = np.full_like(arrays["model/classifier.weight"], 3e38)
        weight[:, ::2] *= -1
        arrays["model/classifier.weight"] = weight

    revised(enlarge)(store)
    with pytest.raises(InputError, match="must give finite scores"):
        Learner.load(store).predict(TESTS[0])


def test_what_a_later_minor_version_adds_is_passed_over(store: Path) -> None:
    before = Learner.load(store).digest()
    rewritten(mood="good", remnant="0.9.0")(store)
    assert Learner.load(store).digest() == before


def test_a_missing_store_and_a_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        Learner.load(tmp_path / "none.remnant")
    for use in (Learner.load, lambda path: learn_into_store(path, *stripes("a"))):
        with pytest.raises(InputError, match="it is a folder"):
            use(tmp_path)


@pytest.mark.parametrize(
    ("update", "told"),
    [
        ((stripes("e")[0], ["e"]), "6 images and 1 labels"),
        ((["missing.png"], ["e"]), "cannot be read"),
        ((stripes(1)), "all be text or all be whole numbers"),
    ],
)
def test_bad_input_leaves_the_store_unchanged_and_nothing_beside_it(
    store: Path, update: tuple[Any, Any], told: str
) -> None:
    content = store.read_bytes()
    with pytest.raises(InputError, match=told):
        learn_into_store(store, *update, quiet=True)
    assert store.read_bytes() == content
    assert names_in(store.parent) == [store.name]


def test_a_full_disk_leaves_the_old_store(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = store.read_bytes()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space left"):
            Learner.load(store).save(store)
    assert store.read_bytes() == content
    assert names_in(store.parent) == [store.name]


# ---------------------------------------------------------------------------------- two at a time


def test_a_link_to_a_store_is_the_store(store: Path) -> None:
    link = store.with_name("link.remnant")
    link.symlink_to(store)
    with only_updater(store), pytest.raises(InputError, match="by another process"):
        forget_in_store(link, "a")
    forget_in_store(link, "a")
    assert link.is_symlink()
    assert "a" not in Learner.load(store).classes_


def test_whoever_says_no_at_the_end_leaves_the_store(store: Path) -> None:
    content = store.read_bytes()

    def refuse() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), quiet=True, before_writing=refuse)
    assert store.read_bytes() == content


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


def test_a_second_updater_gets_a_clear_error(store: Path) -> None:
    class Rival:
        told = ""

        def on_step(self, report: StepReport) -> None:
            try:
                forget_in_store(store, "a")
            except InputError as error:
                self.told = str(error)

    rival = Rival()
    learn_into_store(store, *stripes("e"), quiet=True, watchers=(rival,))
    assert "is being updated by another process. Wait for it to end" in rival.told
    assert Learner.load(store).digest() == expected_digest()
    forget_in_store(store, "a")  # and is let in afterwards


def test_a_store_can_be_read_while_it_is_updated(store: Path) -> None:
    before = Learner.load(store).digest()
    with only_updater(store):
        assert Learner.load(store).digest() == before
        with pytest.raises(InputError, match="being updated"):
            Learner.load(store).save(store)


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


# ---------------------------------------------------------------------------------- interruption


def test_an_interrupted_update_goes_on_from_its_checkpoint(store: Path) -> None:
    content, counter = store.read_bytes(), Counter()
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), quiet=True, watchers=(Counter(9),))
    assert store.read_bytes() == content
    assert names_in(store.parent) == [store.name, work_folder(store).name]
    learner = learn_into_store(store, *stripes("e"), quiet=True, watchers=(counter,))
    assert counter.steps[0] == 8
    assert learner.digest() == expected_digest()
    assert names_in(store.parent) == [store.name, f"{store.name}.before"]


def test_an_interrupted_update_goes_on_with_the_threads_that_it_had(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last bits of sums depend on them."""
    used: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), threads=None, quiet=True, watchers=(Counter(9),))
    learn_into_store(store, *stripes("f"), threads=None, quiet=True)  # another update
    assert 3 not in used
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), threads=None, quiet=True, watchers=(Counter(9),))
    learn_into_store(store, *stripes("e"), threads=None, quiet=True)
    assert used[-1] == 3


def test_a_first_update_goes_on_too_though_there_is_no_store_yet(tmp_path: Path) -> None:
    path, counter = tmp_path / "new.remnant", Counter()
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(path, *stripes("a", "c"), watchers=(Counter(9),), **TINY)
    assert not path.exists()
    learner = learn_into_store(path, *stripes("a", "c"), watchers=(counter,), **TINY)
    assert counter.steps[0] == 8
    assert learner.digest() == tiny_learner().partial_fit(*stripes("a", "c")).digest()


def test_a_damaged_checkpoint_costs_time_alone(store: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), quiet=True, watchers=(Counter(9),))
    for path in work_folder(store).glob("*.safetensors"):
        path.write_bytes(b"")
    learner = learn_into_store(store, *stripes("e"), quiet=True)
    assert learner.digest() == expected_digest()


@pytest.mark.parametrize("given", [{}, {"epochs": None}, {"epochs": None, "minutes": 0.001}])
def test_an_update_that_was_killed_when_it_was_done_is_not_learned_twice(
    store: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    monkeypatch.setitem(defaults._SHOWN, "cpu", 400)  # 20 epochs, or 16 beside more exemplars
    write = store_module.write_store
    written: list[LearnerState] = []

    def write_and_die(path: Path, state: LearnerState) -> None:
        write(path, state)
        written.append(state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "write_store", write_and_die)
        with pytest.raises(KeyboardInterrupt):
            learn_into_store(store, *stripes("e"), quiet=True, **given)
    learner = learn_into_store(store, *stripes("e"), quiet=True, **given)
    assert learner.digest() == written[0].digest()
    assert len(learner.history) == 2
    assert names_in(store.parent) == [store.name, f"{store.name}.before"]
    more = learn_into_store(store, *stripes("e"), quiet=True, **given)  # to train on is allowed
    assert len(more.history) == 3
    assert more.num_exemplars == learner.num_exemplars  # but nothing is stored twice


def test_after_a_kill_when_it_was_done_another_command_is_obeyed(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(work_folder_module, "_remove", lambda _: None)
        learn_into_store(store, *stripes("e"), quiet=True)
    assert len(learn_into_store(store, *stripes("e"), quiet=True).history) == 2
    with monkeypatch.context() as patch:
        patch.setattr(work_folder_module, "_remove", lambda _: None)
        learn_into_store(store, *stripes("g"), quiet=True)
    assert len(learn_into_store(store, *stripes("g"), epochs=7, quiet=True).history) == 4


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not condition():
        assert process.poll() is None, "the program ended too soon"
        time.sleep(0.01)


def test_a_kill_during_an_update_leaves_the_store_and_costs_no_bit(store: Path) -> None:
    content, work = store.read_bytes(), work_folder(store)
    command = [sys.executable, str(SUPPORT / "teach_pixels.py"), str(store), "e", "0.2"]
    with subprocess.Popen(command) as process:
        wait_for(lambda: len([*work.glob("*-step-*.safetensors")]) == 2, process)
        with pytest.raises(InputError, match="being updated by another process"):
            forget_in_store(store, "a")
        process.kill()
    assert store.read_bytes() == content
    counter = Counter()
    learner = learn_into_store(store, *stripes("e"), watchers=(counter,), **TINY)
    assert counter.steps[0] > 0
    assert learner.digest() == expected_digest()
    assert names_in(store.parent) == [store.name, f"{store.name}.before"]


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


def test_what_a_killed_writer_left_is_swept_up(store: Path) -> None:
    left = store.with_name(f".{store.name}.abc123.remnant.tmp")
    removed = store.with_name(f".{store.name}.work.abc123.remnant.tmp")
    other = store.with_name(".other.remnant.abc123.remnant.tmp")
    left.write_bytes(b"half a store")
    removed.mkdir()
    (removed / "lock").touch()
    other.write_bytes(b"somebody else's")
    Learner.load(store).save(store)
    assert not left.exists()
    assert not removed.exists()
    assert other.exists()


def test_a_work_folder_with_a_strangers_file_is_refused_and_left_as_it_is(store: Path) -> None:
    folder = work_folder(store)
    folder.mkdir()
    (folder / "thesis.tex").write_text("precious")
    hidden = store.with_name(f".{store.name}.notes.tmp")
    hidden.write_text("precious")
    content = store.read_bytes()
    with pytest.raises(InputError, match=r"holds thesis\.tex"):
        learn_into_store(store, *stripes("e"), **TINY)
    assert (folder / "thesis.tex").read_text() == hidden.read_text() == "precious"
    assert store.read_bytes() == content


def test_a_strangers_file_that_comes_during_an_update_is_kept(store: Path) -> None:
    folder = work_folder(store)

    def put() -> None:
        (folder / "thesis.tex").write_text("precious")

    learn_into_store(store, *stripes("e"), before_writing=put, **TINY)
    assert names_in(folder) == ["thesis.tex"]


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
