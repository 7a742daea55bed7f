"""The example of docs/learner.md reads a photo as remnant does."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from PIL import Image

from remnant.learner.onnx_export import _PACKAGES
from tests.support.small_learner import stripes, tiny_learner

PAGE = Path(__file__).parents[2] / "docs" / "learner.md"


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in (*_PACKAGES, "onnxruntime")),
    reason="the extra export is not installed",
)
def test_the_example_turns_a_photo_upright(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A picture that lies on its side in its file has a bright row and no bright column."""
    (example,) = re.findall(r"```python\n(import json\n.*?)```", PAGE.read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    learner = tiny_learner(epochs=20).partial_fit(*stripes("a", "h"))
    learner.export("digits.onnx")
    notes = Image.Exif()
    notes[0x0112] = 6  # to be turned by 90 degrees clockwise
    for name in ("a", "h"):
        upright = Image.fromarray(stripes(name, per_class=1, seed=9)[0][0])
        upright.transpose(Image.Transpose.ROTATE_90).save("seven.png", exif=notes)
        assert learner.predict(["seven.png"]).tolist() == [name]
        exec(example, {})
        assert capsys.readouterr().out == f"{name}\n"
