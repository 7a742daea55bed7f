from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from remnant.data import DataConfig, load_dataset
from remnant.errors import InputError
from remnant.learner import Learner, onnx_export
from tests.support.small_learner import stripes, tiny_learner

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None, reason="the extra export is not installed"
)
CHECKS = stripes("a", "c", per_class=5, seed=9)[0]


@pytest.fixture
def learner() -> Learner:
    return tiny_learner().partial_fit(*stripes("a", "c"))


def open_model(path: Path) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def answer(session: Any, images: np.ndarray) -> np.ndarray:
    return session.run(["probabilities"], {"images": images})[0]


def test_a_model_does_what_the_learner_does_and_tells_how_to_use_it(
    learner: Learner, tmp_path: Path
) -> None:
    learner.export(tmp_path / "stripes.onnx")
    session = open_model(tmp_path / "stripes.onnx")
    for count in (1, 3, 10):
        expected = learner.predict_proba(CHECKS[:count])
        assert np.abs(answer(session, CHECKS[:count]) - expected).max() < 1e-5
    told = session.get_modelmeta().custom_metadata_map
    assert json.loads(told["classes"]) == ["a", "c"]
    preparation = json.loads(told["preprocessing"])
    assert preparation["range"] == [0, 255]
    assert preparation["resize_shorter_side"] == 8
    assert preparation["crop_centre"] == [8, 8]
    assert [path.name for path in tmp_path.iterdir()] == ["stripes.onnx"]


def test_a_model_tells_nothing_about_the_machine_that_wrote_it(
    learner: Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import remnant

    path = tmp_path / "stripes.onnx"
    learner.export(path)
    places = [Path(remnant.__file__).parent, Path(torch.__file__).parent, Path.home(), Path.cwd()]
    content = path.read_bytes()
    assert [str(place) for place in places if str(place).encode() in content] == []
    assert b".py" not in content
    monkeypatch.setattr(onnx_export, "_clear_notes", lambda _: None)
    learner.export(path)
    noted = path.read_bytes()
    assert str(places[0]).encode() in noted  # what is searched for was there
    assert len(content) < len(noted)


def test_notes_are_removed_inside_branches_and_functions_too() -> None:
    import onnx

    node = onnx.helper.make_node("Identity", ["a"], ["b"], doc_string='File "/home/me/x.py"')
    value = onnx.helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [1], "/home/me")
    branch = onnx.helper.make_graph([node], "branch", [], [value], doc_string="/home/me")
    choice = onnx.helper.make_node("If", ["c"], ["d"], then_branch=branch, else_branch=branch)
    outer = onnx.helper.make_graph([choice], "outer", [], [value])
    for part in (outer, onnx.helper.make_function("own", "f", ["a"], ["b"], [node, choice], [])):
        onnx_export._clear_notes(part)
        assert b"/home" not in part.SerializeToString()
        assert b"Identity" in part.SerializeToString()


def test_a_model_may_take_floats(learner: Learner, tmp_path: Path) -> None:
    checked = onnx_export.export(learner.state_, tmp_path / "stripes.onnx", takes_floats=True)
    assert checked.num_images == 12  # exemplars of the memory
    assert checked.max_difference <= 1e-4
    session = open_model(tmp_path / "stripes.onnx")
    found = answer(session, CHECKS.astype(np.float32) / 255)
    assert np.abs(found - learner.predict_proba(CHECKS)).max() < 1e-5


def test_a_model_that_differs_from_torch_is_not_written(
    learner: Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert = onnx_export._convert

    def spoil(graph: torch.nn.Module, images: torch.Tensor, state: Any) -> bytes:
        content = convert(graph, images, state)
        for weight in graph.parameters():
            weight.data.neg_()
        return content

    monkeypatch.setattr(onnx_export, "_convert", spoil)
    with pytest.raises(InputError, match=r"agree with torch within 0\.0001; it differs by"):
        learner.export(tmp_path / "stripes.onnx")
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_one_sentence_says_how_to_install_it(
    learner: Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r'pip install -c constraints\.txt -e "\.\[export\]"'):
        learner.export(tmp_path / "stripes.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_a_file_and_needs_a_taught_learner(learner: Learner, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        learner.export(tmp_path)
    with pytest.raises(InputError, match="knows nothing yet"):
        tiny_learner().export(tmp_path / "x.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bimae", "er", "icarl", "dytox", "expandable", "finetune"])
def test_methods_of_every_kind_are_exported(method: str, tmp_path: Path) -> None:
    digits = load_dataset(DataConfig(dataset="digits", images_per_class=4)).train
    images = digits.images.read(torch.arange(len(digits))).numpy()
    labels = digits.labels.numpy()
    learner = Learner(method=method, epochs=1, batch_size=8, accelerator="cpu", threads=1)
    learner.set_params(quiet=True, width=32 if method == "bimae" else None)
    for taught in ((0, 1), (2, 3)):
        is_taught = np.isin(labels, taught)
        learner.partial_fit(images[is_taught], labels[is_taught])
    learner.export(tmp_path / "digits.onnx")
    found = answer(open_model(tmp_path / "digits.onnx"), images)
    assert np.abs(found - learner.predict_proba(images)).max() < 1e-4
