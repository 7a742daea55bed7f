"""Runs whose memory lowers its quality on the way, or is too large to be held decoded."""

from __future__ import annotations

from pathlib import Path

import pytest
from kills import differences

from remnant.config import RunConfig
from remnant.memory import Memory, MemoryConfig, replay
from remnant.runs.experiment import resume, run
from tests.conformance.test_methods import InterruptEachPhase, Interrupted, hurry, tiny_config


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def recoding() -> RunConfig:
    codec = {"name": "webp", "quality": 90}
    memory = MemoryConfig.model_validate({"budget": "6KB", "codec": codec, "when_full": "recode"})
    return tiny_config("er").model_copy(update={"memory": memory})


@pytest.mark.slow
def test_a_run_whose_memory_lowers_its_quality_resumes_exactly(tmp_path: Path) -> None:
    config = recoding()
    run(config, tmp_path / "whole")
    memory = Memory.load(tmp_path / "whole" / "memory.safetensors")
    assert memory.config == config.memory
    assert memory.codec.config.quality < 90
    watcher = InterruptEachPhase(1)
    with pytest.raises(Interrupted):
        run(config, tmp_path / "cut", watchers=(watcher,))
    with pytest.raises(Interrupted):
        resume(tmp_path / "cut", watchers=(watcher,))
    resume(tmp_path / "cut")
    assert differences(tmp_path / "whole", tmp_path / "cut") == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["er", "bimae"])
def test_a_memory_that_is_decoded_as_it_is_read_gives_the_same_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tiny_config(name), tmp_path / "held")
    monkeypatch.setattr(replay, "HELD_BYTES", 0)
    run(tiny_config(name), tmp_path / "read")
    assert differences(tmp_path / "held", tmp_path / "read") == []
