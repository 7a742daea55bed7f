from __future__ import annotations

import errno
import fcntl
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import remnant.runs.experiment as experiment_module
from remnant.config import RunConfig
from remnant.data import DataConfig, load_dataset
from remnant.data.stream import StreamConfig
from remnant.errors import InputError
from remnant.learner import Learner
from remnant.learner.learner_state import LearnerParameters
from remnant.learner.scratch_folder import ScratchFolder
from remnant.memory import MemoryConfig
from remnant.methods import METHODS
from remnant.runs.experiment import run
from remnant.training.processes import TrainingConfig
from remnant.training.trainer import Trainer
from remnant.views.augment import AugmentConfig
from tests.support.pixel_method import PixelsConfig, schedule
from tests.support.plugin_methods import WithBackbone
from tests.support.small_learner import Counter, TaughtPixels, stripes, tiny_learner

TESTS = stripes("a", "c", "e", "f", per_class=3, seed=9)


def taught(*updates: tuple[Any, Any], **changes: Any) -> Learner:
    learner = tiny_learner(**changes)
    for images, labels in updates:
        learner.partial_fit(images, labels)
    return learner


# ----------------------------------------------------------------------- scikit-learn's conventions


def test_a_clone_has_the_parameters_and_none_of_the_knowledge() -> None:
    learner = taught(stripes("a", "c"))
    copy = clone(learner)
    assert isinstance(copy, Learner)
    assert copy.get_params() == learner.get_params()
    assert not hasattr(copy, "classes_")
    check_is_fitted(learner)
    with pytest.raises(NotFittedError):
        check_is_fitted(copy)
    assert copy.set_params(epochs=7).epochs == 7
    assert learner.epochs == 4


def test_a_learner_that_knows_nothing_says_so() -> None:
    learner, images = Learner(), np.zeros((1, 8, 8), np.uint8)
    questions = (
        lambda: learner.predict(images),
        lambda: learner.score(images, ["a"]),
        lambda: learner.forget("a"),
        lambda: learner.save("never.remnant"),
    )
    for ask in questions:
        with pytest.raises(NotFittedError, match=r"knows nothing yet\. Call partial_fit first"):
            ask()


def test_parameters_have_the_same_defaults_wherever_they_are_checked() -> None:
    assert Learner().get_params() == LearnerParameters().model_dump()


def test_predicting_needs_no_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = taught(stripes("a", "c"))
    monkeypatch.setattr(Trainer, "__init__", lambda *_, **__: pytest.fail("a trainer was built"))
    assert learner.score(*stripes("a", "c", seed=9)) == 1.0
    assert len(learner.remembered("a").stored) == 6


def test_it_learns_class_after_class_and_tells_them_all_apart() -> None:
    learner = taught(stripes("e", "a"), stripes("f", "c"))
    assert learner.classes_.tolist() == ["a", "e", "c", "f"]
    assert learner.score(*TESTS) == 1.0
    assert learner.predict(TESTS[0]).tolist() == TESTS[1]


def test_probabilities_are_a_row_per_image_whose_largest_is_the_prediction() -> None:
    learner = taught(stripes(0, 2, 4))
    images, labels = stripes(0, 2, 4, seed=9)
    rows = learner.predict_proba(images)
    assert rows.shape == (18, 3)
    assert rows.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert learner.classes_[rows.argmax(axis=1)].tolist() == learner.predict(images).tolist()
    assert learner.predict(images).dtype.kind == "i"
    assert learner.score(images, labels, sample_weight=np.arange(18)) == 1.0


def test_fit_starts_afresh() -> None:
    learner = taught(stripes("a", "c")).fit(*stripes("b", "e"))
    assert learner.classes_.tolist() == ["b", "e"]
    assert len(learner.history_) == 1
    assert learner.digest() == taught(stripes("b", "e")).digest()


def test_the_same_seed_teaches_the_same_and_another_does_not() -> None:
    updates = stripes("a", "c"), stripes("e")
    assert taught(*updates).digest() == taught(*updates).digest()
    assert taught(*updates).digest() != taught(*updates, seed=1).digest()


def test_the_random_numbers_of_others_are_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    learner = taught(stripes("a", "c"))
    learner.predict(TESTS[0])
    assert torch.equal(torch.rand(3), expected)


def test_numbers_of_numpy_are_parameters_like_others() -> None:
    learner = taught(stripes("a", "c"), epochs=np.int64(4))
    assert learner.digest() == taught(stripes("a", "c")).digest()


# ----------------------------------------------------------------------------------- what is told


def test_the_history_tells_every_update() -> None:
    images, labels = stripes("a", "c")
    learner = tiny_learner().partial_fit(images, labels)
    learner.partial_fit(*stripes("a", "e"), test=stripes("a", "c", "e", per_class=2, seed=9))
    first, second = learner.history_
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", first["when"])
    assert (first["classes"], first["known_classes"], first["images"]) == (["a", "c"], [], 12)
    assert (second["classes"], second["known_classes"], second["images"]) == (["e"], ["a"], 12)
    assert first["accuracy"] is None
    assert second["accuracy"] == 100.0
    assert second["epochs"] == 4
    assert learner.memory_ is not None
    assert second["memory_bytes"] == learner.memory_.nbytes


def test_choices_are_told_on_standard_error_unless_quiet(capsys: pytest.CaptureFixture) -> None:
    taught(stripes("a", "c"), quiet=False)
    told = capsys.readouterr()
    assert "images of 8 px" in told.err
    assert "4 epochs of batches of 4" in told.err
    assert told.out == ""
    taught(stripes("a", "c"))
    assert capsys.readouterr().err == ""


def test_thousands_of_epochs_are_told_in_a_few_lines(capsys: pytest.CaptureFixture) -> None:
    taught(stripes("a", per_class=1), quiet=False, epochs=90)
    lines = [line for line in capsys.readouterr().err.splitlines() if "epoch " in line]
    assert 10 < len(lines) <= 20
    assert "epoch 90/90" in lines[-1]


# ------------------------------------------------------------------------------ few and more images


def test_one_class_alone_is_always_the_answer() -> None:
    learner = taught(stripes("a", per_class=1))
    assert set(learner.predict(TESTS[0])) == {"a"}
    assert learner.partial_fit(*stripes("e")).score(*stripes("a", "e", seed=9)) == 1.0


def test_more_images_of_a_known_class_are_kept_beside_the_old_ones() -> None:
    bright = np.concatenate([filled(level, count=1) for level in range(200, 206)])
    learner = taught(stripes("a", "c")).partial_fit(bright, ["a"] * len(bright))
    assert learner.classes_.tolist() == ["a", "c"]
    kept = learner.remembered("a").stored.mean(axis=(1, 2, 3))
    assert len(kept) == 6
    assert (kept[::2] < 60).all()  # the old ones, and the new ones in turn
    assert (kept[1::2] > 180).all()
    assert set(learner.predict(bright)) == {"a"}


def filled(level: int, count: int = 6) -> np.ndarray:
    return np.full((count, 8, 8, 3), level, np.uint8)


def test_a_method_that_cannot_take_more_of_a_class_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = taught(stripes("a", "c"))
    before = learner.digest()
    monkeypatch.setattr(TaughtPixels, "takes_known_classes", False)
    with pytest.raises(
        InputError, match=r"pixels cannot learn more images of a class.*or use bimae"
    ):
        learner.partial_fit(*stripes("a", "e"))
    assert learner.digest() == before


@pytest.mark.parametrize(
    ("update", "told"),
    [
        (stripes(1), "all be text or all be whole numbers"),
        ((stripes("e")[0], ["e"]), "6 images and 1 labels"),
        ((stripes("e")[0], None), "every image must have a label"),
        (([], []), "at least one image"),
    ],
)
def test_an_update_that_cannot_be_leaves_the_learner_as_it_was(
    update: tuple[Any, Any], told: str
) -> None:
    learner = taught(stripes("a", "c"))
    before = learner.digest()
    with pytest.raises(InputError, match=told):
        learner.partial_fit(*update)
    assert learner.digest() == before
    assert len(learner.history_) == 1


@pytest.mark.parametrize(
    ("classes", "labels", "told"),
    [
        (("a", "c"), [0] * 6, "must be text, as the classes of the learner are; got whole num"),
        ((0, 1), ["0"] * 6, r"must be whole numbers.*; got text\. .* labels\.astype\(int\)"),
    ],
)
def test_labels_that_can_equal_no_class_are_not_scored(
    classes: tuple[Any, ...], labels: list[Any], told: str
) -> None:
    learner = taught(stripes(*classes), epochs=1)
    with pytest.raises(InputError, match=told):
        learner.score(stripes(classes[0])[0], labels)


def test_test_images_of_unknown_classes_are_refused_before_anything_is_learned() -> None:
    counter = Counter()
    with pytest.raises(InputError, match="knows after the update; got 'f'"):
        tiny_learner().partial_fit(*stripes("a"), test=stripes("f"), watchers=(counter,))
    assert counter.steps == []


@pytest.mark.parametrize("name", ["budget", "method", "width", "seed", "options"])
def test_what_the_first_update_fixed_cannot_be_changed(name: str) -> None:
    values = {"budget": "2images/class", "method": "er", "width": 64, "seed": 1}
    changed = values.get(name, {"method.first.sampling": "balanced"})
    learner = taught(stripes("a", "c")).set_params(**{name: changed})
    told = "method.first.sampling" if name == "options" else name
    with pytest.raises(InputError, match=f"{told} was fixed by the first update"):
        learner.partial_fit(*stripes("e"))


def test_epochs_may_change_from_update_to_update() -> None:
    learner = taught(stripes("a", "c")).set_params(epochs=1, options=None)
    assert learner.partial_fit(*stripes("e")).history_[-1]["epochs"] == 1
    with pytest.raises(InputError, match="epochs must be at least 1; got 0"):
        learner.set_params(epochs=0).partial_fit(*stripes("f"))


# ------------------------------------------------------------------------------------ interruption


@pytest.mark.parametrize("stop_at", [0, 3, 8, 11])
def test_an_interrupted_update_changes_nothing_and_goes_on_when_repeated(stop_at: int) -> None:
    learner, update = taught(stripes("a", "c")), stripes("e")
    before, first, second = learner.digest(), Counter(stop_at), Counter()
    with pytest.raises(KeyboardInterrupt):
        learner.partial_fit(*update, watchers=(first,))
    assert learner.digest() == before
    assert learner.classes_.tolist() == ["a", "c"]
    learner.partial_fit(*update, watchers=(second,))
    assert learner.digest() == taught(stripes("a", "c"), stripes("e")).digest()
    assert second.steps[0] == stop_at // 2 * 2  # a checkpoint every two steps
    assert second.steps[-1] == 19  # 6 new images and 12 exemplars in batches of 4, four times


def test_other_images_do_not_go_on_from_what_was_interrupted() -> None:
    learner, counter = taught(stripes("a", "c")), Counter()
    with pytest.raises(KeyboardInterrupt):
        learner.partial_fit(*stripes("e"), watchers=(Counter(9),))
    learner.partial_fit(*stripes("e", seed=1), watchers=(counter,))
    assert counter.steps[0] == 0
    assert learner.digest() == taught(stripes("a", "c"), stripes("e", seed=1)).digest()


def test_an_interrupted_learner_leaves_no_folder_behind_when_it_goes() -> None:
    learner = tiny_learner()
    with pytest.raises(KeyboardInterrupt):
        learner.partial_fit(*stripes("a"), watchers=(Counter(3),))
    assert learner._scratch is not None
    work = learner._scratch.path
    assert len(list(work.iterdir())) > 1
    del learner
    assert not work.exists()


def test_what_a_killed_process_left_is_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("remnant-killed", "remnant-young", "remnant-not-ours", "other"):
        (tmp_path / name).mkdir()
        if name != "remnant-not-ours":
            (tmp_path / name / "lock").touch()
        if name != "remnant-young":
            os.utime(tmp_path / name, (0, 0))
    os.utime(tmp_path / "remnant-killed" / "lock", (0, 0))
    in_use = ScratchFolder()
    os.utime(in_use.path / "lock", (0, 0))
    ScratchFolder().remove()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"remnant-young", "remnant-not-ours", "other", in_use.path.name}
    in_use.remove()
    assert not in_use.path.exists()


def test_without_locks_no_folder_of_another_process_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(fcntl, "flock", refuse)
    other = ScratchFolder()
    os.utime(other.path / "lock", (0, 0))
    ScratchFolder().remove()
    assert other.path.exists()


# --------------------------------------------------------------------------------------- forgetting


def test_a_forgotten_class_is_gone_and_the_others_are_as_they_were() -> None:
    learner = taught(stripes("a", "c"), stripes("e", "f"))
    others = [0, 2, 3]
    before = learner.predict_proba(TESTS[0])[:, others]
    told = learner.forget("c")
    assert "6 exemplars" in told
    assert "cannot be undone" in told
    assert learner.classes_.tolist() == ["a", "e", "f"]
    assert learner.memory_ is not None
    assert learner.memory_.labels == [0, 1, 2]
    assert learner.memory_.class_names == ["a", "e", "f"]
    after = learner.predict_proba(TESTS[0])
    assert after == pytest.approx(before / before.sum(axis=1, keepdims=True), rel=1e-4)
    assert "c" not in str(learner.history_[0]["classes"])


def test_after_forgetting_one_can_learn_on_even_the_same_class_again() -> None:
    learner = taught(stripes("a", "c"), stripes("e"))
    learner.forget("e")
    learner.partial_fit(*stripes("e", "f"))
    assert learner.classes_.tolist() == ["a", "c", "e", "f"]
    assert learner.score(*TESTS) == 1.0


def test_forgetting_what_cannot_be_forgotten_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner = taught(stripes("a", "c"))
    before = learner.digest()
    with pytest.raises(InputError, match=r"there is no class 'b'\..*Known: a, c"):
        learner.forget("b")
    with pytest.raises(InputError, match="the only class"):
        taught(stripes("a")).forget("a")
    monkeypatch.setattr(TaughtPixels, "has_one_row_per_class", False)
    with pytest.raises(InputError, match="pixels cannot remove a class"):
        learner.forget("a")
    assert learner.digest() == before


# ------------------------------------------------------------------------------- runs and methods


def test_a_finished_run_becomes_a_learner_that_predicts_and_learns_as_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("draw_memory", "write_report"):
        monkeypatch.setattr(experiment_module, name, lambda *_: None)
    config = RunConfig(
        data=DataConfig(dataset="digits", images_per_class=8, image_size=8),
        stream=StreamConfig(num_classes=4, num_tasks=2),
        augment=AugmentConfig(train="none"),
        memory=MemoryConfig(budget="3images/class"),
        method=PixelsConfig(first=schedule(4, 4, lr=0.02)),
        training=TrainingConfig(accelerator="cpu", threads=1),
    )
    with pytest.raises(InputError, match=r"run does not exist\. Check the path"):
        Learner.from_run(tmp_path / "run")
    result = run(config, tmp_path / "run")
    learner = Learner.from_run(tmp_path / "run").set_params(**_machine())
    assert learner.classes_.tolist() == result.class_names
    assert learner.memory_ is not None
    assert learner.memory_.digest() == (result.memory and result.memory.digest)
    test = load_dataset(config.data).test
    seen = test.select(torch.nonzero(test.labels < 4).flatten())
    images = seen.images.read(torch.arange(len(seen))).numpy()
    names = [result.class_names[label] for label in seen.labels.tolist()]
    assert 100 * learner.score(images, names) == pytest.approx(result.last_accuracy)
    learner.partial_fit(images[:3], ["new"] * 3)
    assert learner.classes_.tolist() == [*result.class_names, "new"]


def _machine() -> dict[str, Any]:
    return {"accelerator": "cpu", "threads": 1, "quiet": True}


@pytest.fixture
def own_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered within a test is not known after it."""
    monkeypatch.setitem(METHODS, "with-backbone", WithBackbone)
    monkeypatch.delitem(METHODS, "with-backbone")


@pytest.mark.usefixtures("own_methods")
def test_a_method_can_be_given_by_its_class(tmp_path: Path) -> None:
    learner = taught(stripes("a", "c"), stripes("e"), method=WithBackbone, epochs=1, options=None)
    assert clone(learner).get_params()["method"] is WithBackbone
    learner.save(tmp_path / "own.remnant")
    loaded = Learner.load(tmp_path / "own.remnant").set_params(**_machine())
    assert loaded.method == "with-backbone"
    assert (loaded.predict_proba(TESTS[0]) == learner.predict_proba(TESTS[0])).all()


@pytest.mark.usefixtures("own_methods")
def test_a_class_defined_again_replaces_its_former_self_but_no_other_method() -> None:
    LearnerParameters.of({"method": WithBackbone})
    again = type("WithBackbone", (WithBackbone,), {"__module__": WithBackbone.__module__})
    assert LearnerParameters.of({"method": again}).method == "with-backbone"
    assert METHODS["with-backbone"] is again
    with pytest.raises(InputError, match="already a method named 'with-backbone'"):
        LearnerParameters.of({"method": type("Other", (WithBackbone,), {})})
    with pytest.raises(InputError, match="must be a name or a subclass of"):
        LearnerParameters.of({"method": dict})


SMALL_BIMAE = {"method.network.depth": 2, "augment.padding": 0}


def test_bilateral_mae_is_taught_and_completes_what_it_remembers(tmp_path: Path) -> None:
    tiny = {"method": "bimae", "codec": "coded-patches", "width": 16, "image_size": 16, "epochs": 1}
    learner = taught(
        stripes("a", "c"), stripes("c", "e"), **tiny, budget="400B/class", options=SMALL_BIMAE
    )
    kept = learner.remembered("c")
    assert len(kept.num_bytes) == len(kept.stored) == len(kept.completed) > 0
    assert kept.is_known is not None
    assert kept.is_known.shape[1:] == (8, 8)
    known = kept.is_known.repeat(2, axis=1).repeat(2, axis=2)
    assert (kept.stored[known] == kept.completed[known]).all()
    assert (kept.stored[~known] != kept.completed[~known]).any()
    learner.forget("a")
    learner.save(tmp_path / "bimae.remnant")
    loaded = Learner.load(tmp_path / "bimae.remnant").set_params(**_machine())
    assert (loaded.predict_proba(TESTS[0]) == learner.predict_proba(TESTS[0])).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in METHODS if name != "pixels"])
def test_every_method_can_be_taught_twice_saved_and_asked(name: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"augment.padding": 0}
    config = METHODS[name].Config.model_fields
    options |= {"method.network.depth": 1} if "network" in config else {}
    options |= {"method.backbone.name": "resnet8"} if "backbone" in config else {}
    width = 16 if "network" in config else None
    learner = tiny_learner(
        method=name, codec=None, image_size=16, width=width, epochs=1, options=options
    )
    learner.partial_fit(*stripes("a", "c", "e"))
    if name != "joint":
        learner.partial_fit(*stripes("b", "f"))
    learner.save(tmp_path / "store.remnant")
    loaded = Learner.load(tmp_path / "store.remnant").set_params(**_machine())
    assert loaded.digest() == learner.digest()
    assert loaded.predict_proba(TESTS[0]) == pytest.approx(learner.predict_proba(TESTS[0]))
