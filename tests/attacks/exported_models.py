"""F: exported models, and commands that are given one in place of a store."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from remnant.learner import Learner
from tests.attacks.mutants import refuses
from tests.attacks.tally import Tally
from tests.support.small_learner import stripes, tiny_learner


def attack(folder: Path, seed: int, count: int) -> Tally:
    """`count` images; the model must agree on each, and tell nothing of the machine."""
    import onnx
    import onnxruntime

    folder.mkdir(parents=True)
    tally, model = Tally(), folder / "model.onnx"
    learner: Learner = tiny_learner().partial_fit(*stripes("a", "c"))
    learner.export(model)
    images = np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    found = np.asarray(session.run(["probabilities"], {"images": images})[0])
    for number, (one, other) in enumerate(zip(found, learner.predict_proba(images), strict=True)):
        is_same = np.abs(one - other).max() < 1e-4
        tally.add(None if is_same else f"image {number} of seed {seed}: another answer")
    content = model.read_bytes()
    for place in (Path(onnx.__file__).parents[1], Path.home(), Path.cwd(), folder):
        tally.add(f"it names {place}" if str(place).encode() in content else None)
    tally.add(None if [*folder.iterdir()] == [model] else "it is not one file")
    loaded = onnx.load(model)
    outside = [one.name for one in loaded.graph.initializer if one.external_data]
    tally.add(f"numbers outside: {outside}" if outside else None)
    tally.add(refuses(model))
    return tally
