"""A learner on a frozen encoder: any order gives the same, and what is forgotten is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from remnant import Learner
from remnant.errors import InputError
from remnant.learner.encoder_choice import choose_encoder
from remnant.learner.learner_state import LearnerParameters
from remnant.learner.predictor import Predictor
from remnant.learner.store import forget_with_receipt
from remnant.methods import ncm
from remnant.views.augment import plain_views
from tests.support.striped_photos import SIZE, photos


def taught(*updates: list[tuple[str, int, slice]], method: str = "ranpac") -> Learner:
    """After updates of (name, label, which of its six photos)."""
    learner = Learner(method=method, quiet=True, threads=1, options=OPTIONS.get(method))
    for update in updates:
        images = np.concatenate([photos(label, 6)[which] for _, label, which in update])
        names = [name for name, _, which in update for _ in range(6)[which]]
        learner.partial_fit(images, names)
    return learner


OPTIONS = {"ranpac": {"method.num_projected": 100}}
ALL = slice(None)
A, B, C = ("a", 0, ALL), ("b", 1, ALL), ("c", 2, ALL)


def rows(learner: Learner) -> dict[str, bytes]:
    """The classifier, by class."""
    method = learner.method_
    table = method.sums if hasattr(method, "sums") else method.classifier.weight.detach()
    found = {
        str(name): table[index].numpy().tobytes() for index, name in enumerate(learner.classes_)
    }
    if hasattr(method, "temperature"):
        found["temperature"] = method.temperature.numpy().tobytes()
    return found


@pytest.mark.parametrize("method", ["ranpac", "ncm"])
def test_any_order_and_any_number_of_updates_give_the_same(method: str) -> None:
    expected = rows(taught([A, B, C], method=method))
    orders = [
        ([C], [B], [A]),
        ([B, A], [C]),
        ([("a", 0, slice(0, 2)), B], [C, ("a", 0, slice(2, 6))]),
    ]
    for order in orders:
        assert rows(taught(*order, method=method)) == expected


@pytest.mark.numeric
def test_of_many_held_out_images_the_same_few_are_compared_in_any_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everything = taught([A, B, C], method="ncm").method_.held_out()
    assert everything is not None
    assert len(everything[0]) > 2
    monkeypatch.setattr(ncm, "MOST_COMPARED", 2)
    learner = taught([A, B, C], method="ncm")
    few = learner.method_.held_out()
    assert few is not None
    assert len(few[0]) == 2
    assert rows(taught([C], [B, A], method="ncm")) == rows(learner)


@pytest.mark.parametrize("method", ["ranpac", "ncm"])
def test_a_forgotten_class_leaves_the_classifier_that_never_saw_it(method: str) -> None:
    learner = taught([A, B], [C], method=method)
    message = learner.forget("b")
    assert "the classifier that never saw it" in message
    never = taught([A], [C], method=method)
    assert rows(learner) == rows(never)
    assert learner.digest() == never.digest()  # exemplars and all


def test_a_receipt_names_the_store_that_never_saw_the_class(tmp_path: Path) -> None:
    """Anyone who still has the other photos can check it by teaching them alone."""
    path = tmp_path / "x.remnant"
    taught([A, B], [C]).save(path)
    _, receipt = forget_with_receipt(path, "c")
    assert receipt.equals_never_seen
    assert receipt.digest_after == taught([A, B]).digest()


@pytest.mark.parametrize("again", [C, A])
def test_a_class_taught_in_two_updates_leaves_no_trace(
    again: tuple[str, int, slice], tmp_path: Path
) -> None:
    path = tmp_path / "x.remnant"
    taught([A, B], [C], [again]).save(path)
    _, receipt = forget_with_receipt(path, "c")
    assert receipt.digest_after == taught([A, B]).digest()
    left = Learner.load(path)
    assert left.state_.task_sizes == (2,)
    assert left.digest() == receipt.digest_after


def test_the_same_photos_again_change_nothing() -> None:
    learner = taught([A, B])
    before, kept, digest = rows(learner), learner.memory_.counts, learner.digest()
    learner.partial_fit(photos(0, 6), ["a"] * 6)
    assert (rows(learner), learner.memory_.counts) == (before, kept)
    assert learner.digest() == digest


def test_it_learns_what_it_is_shown() -> None:
    learner = taught([A, B], [C])
    fresh = np.concatenate([photos(label, 5, seed=1) for label in range(3)])
    assert learner.score(fresh, ["a"] * 5 + ["b"] * 5 + ["c"] * 5) > 0.8


def test_a_store_needs_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = taught([A, B])
    learner.save(tmp_path / "x.remnant")
    monkeypatch.setattr("remnant.encoders.lite0._PACKAGE", "no_such_package")
    again = Learner.load(tmp_path / "x.remnant")
    image = photos(1, 1, seed=2)
    # Not equal to the last bit: the learner was given one thread, what is loaded takes all cores.
    assert np.allclose(again.predict_proba(image), learner.predict_proba(image), atol=1e-6)
    assert again.digest() == learner.digest()


@pytest.mark.parametrize(
    ("command", "answer", "not_needed"),
    [
        (["predict", "x.remnant", "x.png"], "x.png: a ", "sklearn scipy lightning_fabric onnx"),
        (["learn", "x.remnant", "more"], "New classes  new", "sklearn scipy onnx"),
    ],
    ids=["predict", "learn"],
)
def test_what_is_not_needed_is_not_imported(
    command: list[str], answer: str, not_needed: str, tmp_path: Path
) -> None:
    """Each of these takes a second or more before the first answer; so does torch's compiler."""
    taught([A, B]).save(tmp_path / "x.remnant")
    Image.fromarray(photos(0, 1)[0]).save(tmp_path / "x.png")
    (tmp_path / "more" / "new").mkdir(parents=True)
    for rank, image in enumerate(photos(2, 6)):
        Image.fromarray(image).save(tmp_path / "more" / "new" / f"{rank}.png")
    program = (
        "import sys; from remnant.cli import main\n"
        f"sys.argv[1:] = {command}\n"
        "try: main()\n"
        f"finally: print(sorted({{'torch._dynamo', *{not_needed.split()}}} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert answer in found.stdout
    assert found.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_an_exported_model_has_the_encoder_inside(tmp_path: Path) -> None:
    import onnxruntime

    learner = taught([A, B, C])
    learner.export(tmp_path / "x.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "x.onnx", providers=["CPUExecutionProvider"])
    pixels = torch.randint(0, 256, (4, 224, 224, 3), dtype=torch.uint8)
    settings = learner.settings_
    views = plain_views(pixels, settings.mean, settings.std)
    expected = learner.method_.predict(views).softmax(dim=1)
    (found,) = session.run(None, {"images": pixels.numpy()})
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-3)


# ------------------------------------------------------------------------------------- the choice


@pytest.mark.parametrize(
    ("side", "is_installed", "parameters", "method", "encoder"),
    [
        (400, True, {}, "ranpac", "efficientnet-lite0"),
        (64, True, {}, "ranpac", "efficientnet-lite0"),
        (63, True, {}, "bimae", None),
        (400, False, {}, "bimae", None),
        (400, True, {"encoder": "none"}, "bimae", None),
        (400, True, {"method": "er"}, "er", None),
        (32, True, {"method": "ncm"}, "ncm", "efficientnet-lite0"),
        (32, True, {"encoder": "hf:a/b"}, "ranpac", "hf:a/b"),
    ],
)
def test_photographs_go_to_a_pretrained_encoder_where_there_is_one(
    side: int,
    is_installed: bool,
    parameters: dict[str, str],
    method: str,
    encoder: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("remnant.encoders.lite0.is_installed", lambda: is_installed)
    choice = choose_encoder(LearnerParameters.parse(parameters), side)
    assert (choice.method, choice.encoder) == (method, encoder)
    assert choice.why


def test_what_was_chosen_and_why_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    learner = Learner(threads=1)
    learner.partial_fit(photos(0, 2), ["a", "a"])
    told = capsys.readouterr().err
    assert "on the pretrained encoder efficientnet-lite0 (Apache-2.0)" in told
    assert "images of 64 px are photographs" in told


def test_the_encoder_is_aligned_by_the_first_update() -> None:
    learner = taught([A])
    learner.set_params(encoder="none", method=None)
    with pytest.raises(InputError, match="was fixed by the first update"):
        learner.partial_fit(photos(1, 2), ["b", "b"])


def test_what_the_first_update_chose_is_named_and_may_be_given_later() -> None:
    learner = Learner(quiet=True, threads=1).partial_fit(photos(0, 2), ["a", "a"])
    learner.set_params(method="tuned")
    with pytest.raises(InputError) as told:
        learner.partial_fit(photos(1, 2), ["b", "b"])
    assert str(told.value) == (
        "method was fixed by the first update: 'ranpac'; got 'tuned'. Leave it out, or use another "
        "store or learner, or `remnant rebuild`."
    )
    learner.set_params(method="ranpac", encoder="efficientnet-lite0")
    learner.partial_fit(photos(1, 2), ["b", "b"])
    assert learner.classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize("method", ["ranpac", "ncm"])
def test_what_was_never_taught_is_rejected(method: str) -> None:
    """Noise is like no stripes; stripes of a known class are."""
    learner = Learner(method=method, quiet=True, threads=1, options=OPTIONS.get(method))
    images = np.concatenate([photos(label, 20) for label in (0, 1)])
    learner.partial_fit(images, ["a"] * 20 + ["b"] * 20)
    entry = learner.history_[-1]
    assert entry["measured_on"] == "held-out"
    assert 1 <= entry["measured_images"] <= 20  # about a fifth
    predictor = Predictor(learner.state_)
    noise = np.random.default_rng(5).integers(0, 256, (6, SIZE, SIZE, 3), dtype=np.uint8)
    shares, is_known = predictor.recognise(noise)
    assert not is_known.any()
    fresh = np.concatenate([photos(label, 8, seed=9) for label in (0, 1)])
    shares, is_known = predictor.recognise(fresh)
    assert is_known.mean() > 0.5
    assert shares[np.arange(16), [0] * 8 + [1] * 8].mean() > 0.7
    np.testing.assert_allclose(shares, learner.predict_proba(fresh), atol=1e-5)
