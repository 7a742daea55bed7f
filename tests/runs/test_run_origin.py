"""What becomes of a run whose images are bad, or other than they were."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from remnant.config import RunConfig
from remnant.data import DataConfig
from remnant.data.decode import UnreadableImageError
from remnant.data.stream import StreamConfig
from remnant.errors import InputError
from remnant.files import write_json
from remnant.memory import MemoryConfig
from remnant.methods import METHODS
from remnant.runs.experiment import resume, run
from remnant.runs.run_origin import advising_on_images
from remnant.training.processes import TrainingConfig
from remnant.views.augment import AugmentConfig
from tests.support.command_line import Command, stopped_run, write_pictures
from tests.support.pixel_method import Pixels, PixelsConfig, schedule


def large_config(pictures: Path) -> RunConfig:
    """Images that are read from their files while the run goes on."""
    return RunConfig(
        data=DataConfig(dataset="folder", path=str(pictures), image_size=72),
        stream=StreamConfig(num_tasks=2, order="identity"),
        augment=AugmentConfig(train="flip"),
        memory=MemoryConfig(budget="1images/class"),
        method=PixelsConfig(first=schedule(1, 4)),
        training=TrainingConfig(accelerator="cpu", threads=1),
    )


def test_an_image_that_stops_a_run_says_what_to_do_before_starting_over(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "pixels", Pixels)
    pictures = write_pictures(tmp_path / "my pictures", dict.fromkeys("abcd", 4))
    broken = pictures / "d" / "1.png"
    broken.write_bytes(broken.read_bytes()[:40])
    with pytest.raises(InputError, match="cannot be resumed with other images") as caught:
        run(large_config(pictures), tmp_path / "run")
    said = str(caught.value)
    assert said.startswith(f"{broken} must be a whole")
    (line,) = re.findall("`remnant (.*)`", said)
    assert str(broken) in command(*shlex.split(line)).sentence
    broken.unlink()
    assert command(*shlex.split(line)).code == 0
    with pytest.raises(InputError, match="changed since its last checkpoint"):
        resume(tmp_path / "run")


def test_images_may_be_moved_between_a_stop_and_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "pixels", Pixels)
    pictures = write_pictures(tmp_path / "pictures", dict.fromkeys("abcd", 4))
    folder = stopped_run(tmp_path / "run", large_config(pictures))
    (tmp_path / "elsewhere").mkdir()
    moved = pictures.rename(tmp_path / "elsewhere" / "pictures")
    write_json(folder / "config.json", large_config(moved).model_dump(mode="json"))
    assert resume(folder).finished


@pytest.mark.parametrize(("root", "options"), [(None, ""), ("/data", " --data-root /data")])
def test_a_data_set_of_its_own_name_is_checked_where_it_is(root: str | None, options: str) -> None:
    data = DataConfig(dataset="imagenet-full", root=root)
    with (
        pytest.raises(InputError, match=f"`remnant data check imagenet-full{options}`"),
        advising_on_images(data),
    ):
        raise UnreadableImageError("x.png does not decode.")
