from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from remnant.errors import InputError
from remnant.images import ArrayImages, ImageSet
from remnant.memory import MemoryConfig
from remnant.methods import METHODS
from remnant.probe import CueTable, LookResult, probe_run
from remnant.probe.finished_run import open_run
from remnant.probe.looks import blurred
from remnant.probe.score_bias import ScoreBias
from remnant.runs.experiment import run
from remnant.runs.run_folder import read_predictions, read_result
from tests.support.command_line import Command
from tests.support.tiny_methods import run_config


def tiny_run(folder: Path, method: str, **changes: Any) -> Path:
    """A run of two tasks with one epoch each, on 16 images of four digits."""
    config = run_config(method)
    first = config.method.first.model_copy(update={"epochs": 1})
    short = {"first": first, "refresh_every_epochs": None, "balanced_tuning": None}
    values = {name: value for name, value in short.items() if hasattr(config.method, name)}
    config = config.model_copy(
        update={"method": config.method.model_copy(update=values), **changes}
    )
    run(config, folder)
    return folder


@pytest.fixture(scope="module")
def drawing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bilateral MAE with quarters of images in its memory."""
    return tiny_run(tmp_path_factory.mktemp("probe") / "bimae", "bimae")


@pytest.fixture(scope="module")
def coding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replay of coded images."""
    memory = MemoryConfig.parse({"budget": "3images/class", "codec": {"name": "jpeg"}})
    return tiny_run(tmp_path_factory.mktemp("probe") / "er", "er", memory=memory)


def by_name(table: CueTable) -> dict[str, LookResult]:
    return {one.name: one for one in table.looks}


def test_plain_images_are_answered_as_the_run_said(drawing: Path) -> None:
    top5, labels = read_predictions(drawing, 1)
    plain = probe_run(drawing).looks[0]
    is_old, is_newest = labels < 2, top5[:, 0] >= 2
    assert plain.old_to_newest == pytest.approx(100 * is_newest[is_old].mean())
    assert plain.new_to_newest == pytest.approx(100 * is_newest[~is_old].mean())
    accuracy = read_result(drawing).accuracy_matrix[-1]
    assert [plain.accuracy_old, plain.accuracy_new] == pytest.approx(accuracy)
    assert plain.lean == 0


def test_a_method_that_draws_is_probed_by_border_mask_and_completion(drawing: Path) -> None:
    table = probe_run(drawing)
    assert list(by_name(table)) == ["as they are", "border", "blurred", "masked", "completed"]
    assert set(table.left_out) == {"coded"}
    assert json.loads(json.dumps(table.to_json()))["looks"][1]["name"] == "border"


def test_whole_images_in_memory_are_probed_by_border_and_codec(coding: Path) -> None:
    table = probe_run(coding)
    assert list(by_name(table)) == ["as they are", "border", "blurred", "coded"]
    assert set(table.left_out) == {"masked", "completed"}
    assert "jpeg" in by_name(table)["coded"].about


def test_stored_patches_are_probed_with_their_own_pixels_and_as_the_codec_leaves_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec = {"name": "coded-patches", "patch_size": 4, "mask_ratio": 0.75, "quality": 50}
    memory = MemoryConfig.parse({"budget": "3images/class", "codec": codec})
    augment = run_config("bimae").augment.model_copy(update={"train": "flip"})
    folder = tiny_run(tmp_path / "coded", "bimae", memory=memory, augment=augment)
    shown: list[tuple[Tensor, Tensor]] = []
    predict = METHODS["bimae"].predict_parts  # pyright: ignore

    def look(self: Any, views: Tensor, is_known: Tensor) -> Tensor:
        shown.append((views, is_known))
        return predict(self, views, is_known)

    monkeypatch.setattr(METHODS["bimae"], "predict_parts", look)
    table = probe_run(folder)
    assert list(by_name(table)) == ["as they are", "blurred", "masked", "coded", "completed"]
    assert table.left_out == {"border": "augment.train=flip gives images no border"}
    half = len(shown) // 2  # of old images and of new ones, first with their own pixels
    (pixels, is_known), (coded, same) = (
        map(torch.cat, zip(*part, strict=True)) for part in (shown[:half], shown[half:])
    )
    assert torch.equal(is_known, same)
    stored = is_known.repeat_interleave(4, 1).repeat_interleave(4, 2)[:, None].expand_as(pixels)
    gap = (pixels - coded)[stored].abs().mean()
    deviation = (pixels[stored] - pixels[stored].mean()).abs().mean()
    assert 0 < gap < deviation  # coarse, but of the same patches


def test_a_network_that_goes_by_the_border_is_found_out(
    coding: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def predict(self: Any, views: Tensor) -> Tensor:
        """The newest where an edge of the view is black all along, else the first class."""
        darkest = views.amin(dim=(1, 2, 3), keepdim=True)
        is_black = (views <= darkest + 1e-3).all(dim=1)  # [B, H, W]
        edges = [is_black[:, 0], is_black[:, -1], is_black[:, :, 0], is_black[:, :, -1]]
        is_new = torch.stack([edge.all(dim=1) for edge in edges]).any(dim=0)
        return torch.nn.functional.one_hot(3 * is_new.long(), 4).float()

    monkeypatch.setattr(METHODS["er"], "predict", predict)
    table = probe_run(coding)
    border = by_name(table)["border"]
    # Some digits are black at an edge as they are, so that not all answers can move.
    assert border.lean > 10
    assert border.is_cue
    assert "'border' moves" in table.reading


def test_a_network_that_goes_by_sharpness_is_found_out(
    coding: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def predict(self: Any, views: Tensor) -> Tensor:
        """The newest where a pixel differs much from its neighbours, else the first class."""
        is_new = views.diff(n=2, dim=3).abs().mean(dim=(1, 2, 3)) > 0.235
        return torch.nn.functional.one_hot(3 * is_new.long(), 4).float()

    monkeypatch.setattr(METHODS["er"], "predict", predict)
    table = probe_run(coding)
    assert by_name(table)["blurred"].lean < -10
    assert by_name(table)["blurred"].is_cue


def test_a_blurred_image_keeps_its_means_and_loses_its_details() -> None:
    rows, columns = torch.meshgrid(torch.arange(6), torch.arange(7), indexing="ij")
    checkers = ((rows + columns) % 2 * 200).byte()[None, :, :, None]
    flat = torch.full_like(checkers, 90)
    images = ImageSet(ArrayImages(torch.cat([checkers, flat])), torch.zeros(2), torch.arange(2))
    seen = blurred(images).images.read(torch.arange(2))
    assert torch.equal(seen[1:], flat)
    # The last column has no neighbour: its squares are means of one by two pixels.
    assert (seen[0] == 100).all()


def test_as_many_images_are_used_as_asked_for(coding: Path) -> None:
    table = probe_run(coding, max_images=3)
    assert (table.num_old_images, table.num_new_images) == (3, 3)
    with pytest.raises(InputError, match="--images must be at least 1"):
        probe_run(coding, max_images=0)


def result(name: str, lean: float, error: float = 1.0) -> LookResult:
    return LookResult(name, "", 10.0, 20.0, 30.0, 40.0, 35.0, lean, error)


def table_of(*looks: LookResult) -> CueTable:
    return CueTable("run", 100, 100, ["cat"], list(looks), {}, ScoreBias(0.0, 35.0, 35.0, None))


def test_the_reading_names_the_strongest_cue_first() -> None:
    reading = table_of(result("border", 20.0), result("completed", -50.0)).reading
    assert reading == (
        "'completed' moves 50.0 points of the answers away from the newest classes and 'border' "
        "moves 20.0 points of the answers to the newest classes: the network takes 'completed' as "
        "a sign of old classes."
    )


@pytest.mark.parametrize("found", [result("border", 4.9, 0.1), result("border", 8.0, 3.0)])
def test_what_is_small_or_may_be_chance_is_no_cue(found: LookResult) -> None:
    assert "no cue was found" in table_of(found).reading


def test_the_lean_is_the_mean_move_of_old_and_new_images(drawing: Path) -> None:
    looks = by_name(probe_run(drawing))
    plain, masked = looks["as they are"], looks["masked"]
    moves = [
        masked.old_to_newest - plain.old_to_newest,
        masked.new_to_newest - plain.new_to_newest,
    ]
    assert masked.lean == pytest.approx(sum(moves) / 2)


def test_only_a_finished_run_with_its_last_checkpoint_can_be_probed(
    coding: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="must be a finished run"):
        open_run(tmp_path)
    folder = shutil.copytree(coding, tmp_path / "run")
    shutil.rmtree(folder / "checkpoint")
    with pytest.raises(InputError, match=r"task-002\.safetensors; it was removed"):
        open_run(folder)


def test_the_command_prints_a_table_and_a_sentence(coding: Path, command: Command) -> None:
    answer = command("probe", str(coding))
    looks = [line.split()[0] for line in answer.out.splitlines()[2:] if line[:1].isalpha()]
    assert looks[:4] == ["as", "border", "blurred", "coded"]  # wide numbers take a second line
    assert "Not measured: masked, since the memory keeps whole images." in answer.out
    printed = json.loads(command("probe", str(coding), "--json").out)
    assert printed["reading"] in answer.out.replace("\n", " ")
    assert printed["bias"]["reading"] in answer.out.replace("\n", " ")
    assert printed["bias"]["accuracy"] >= printed["bias"]["unshifted"] - 1e-9
