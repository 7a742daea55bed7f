from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from remnant.data.file_images import FileImages
from remnant.data.fingerprints import fingerprint
from remnant.errors import InputError
from remnant.images import ArrayImages
from remnant.learner import decoded_inputs
from remnant.learner.decoded_inputs import measure_colours, read, shorter_side
from remnant.learner.inputs import gather, gather_labelled
from tests.support.broken_pictures import bomb, truncated


def picture(seed: int = 0, height: int = 12, width: int = 12) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


BATCH = np.stack([picture(seed) for seed in range(3)])


def as_read(images: Any, size: int = 12) -> np.ndarray:
    found = read(gather(images), size)
    return found.read(torch.arange(len(found))).numpy()


# ----------------------------------------------------------------------------------------- forms


@pytest.mark.parametrize(
    "convert",
    [
        lambda batch: batch,
        lambda batch: list(batch),
        lambda batch: tuple(torch.from_numpy(image) for image in batch),
        lambda batch: torch.from_numpy(batch),
        lambda batch: torch.from_numpy(batch).permute(0, 3, 1, 2),
        lambda batch: batch.transpose(0, 3, 1, 2),
        lambda batch: batch / 255,
        lambda batch: (batch / 255).astype(np.float32),
        lambda batch: batch.astype(np.int64),
        lambda batch: [Image.fromarray(image) for image in batch],
        lambda batch: (image for image in batch),
        lambda batch: [batch[0], Image.fromarray(batch[1]), torch.from_numpy(batch[2])],
    ],
)
def test_every_form_of_the_same_images_is_the_same(convert: Callable[[np.ndarray], Any]) -> None:
    assert (as_read(convert(BATCH)) == BATCH).all()


def test_files_and_folders_of_the_same_images_are_the_same(tmp_path: Path) -> None:
    paths = [tmp_path / "cat" / f"{index}.png" for index in range(3)]
    paths[0].parent.mkdir()
    for path, image in zip(paths, BATCH, strict=True):
        Image.fromarray(image).save(path)
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    for images in (tmp_path, str(tmp_path), tmp_path / "cat", paths, np.array([*map(str, paths)])):
        assert (as_read(images) == BATCH).all()
    assert (as_read(paths[1]) == BATCH[1:2]).all()
    assert gather_labelled(tmp_path, None).labels == ["cat"] * 3


def test_grey_images_become_three_equal_channels() -> None:
    grey = BATCH[:, :, :, 0]
    for images in (grey, grey[..., None], grey[:, None]):
        assert (as_read(images) == grey[..., None]).all()


def test_levels_that_somebody_computed_are_those_of_arrays() -> None:
    levels = np.full((8, 8), 0.5, np.float32)
    assert (read(gather([Image.fromarray(levels)]), 8).read(torch.tensor([0])) == 128).all()
    whole = Image.fromarray(np.full((8, 8), 200, np.int32))
    assert (read(gather(whole), 8).read(torch.tensor([0])) == 200).all()
    with pytest.raises(InputError, match=r"image 0 must hold .* floats from 0 to 1"):
        gather([Image.fromarray(levels * 300)])


def test_a_home_that_does_not_exist_is_told() -> None:
    with pytest.raises(InputError, match="names a user that does not exist"):
        gather("~nobody-at-all/images")


def test_transparent_pixels_are_white() -> None:
    clear = np.zeros((1, 12, 12, 4), np.uint8)
    assert (as_read(clear) == 255).all()


def test_images_of_mixed_sizes_are_cropped_to_a_square_about_their_middle() -> None:
    wide = np.zeros((12, 36, 3), np.uint8)
    wide[:, 12:24] = 200
    large = np.full((48, 24, 3), 90, np.uint8)
    found = as_read([wide, large, picture()])
    assert found.shape == (3, 12, 12, 3)
    assert (found[0] == 200).all()
    assert (found[1] == 90).all()


def test_a_picture_of_somebody_else_is_left_as_it_is(tmp_path: Path) -> None:
    Image.fromarray(picture(height=640, width=640)).save(tmp_path / "large.jpg")
    with Image.open(tmp_path / "large.jpg") as given:
        as_read([given], size=16)
        assert given.size == (640, 640)


def test_the_sizes_of_most_images_decide() -> None:
    images = [picture(height=30, width=50), picture(height=90, width=31), picture(height=400)]
    assert shorter_side(gather(images)) == 30
    assert shorter_side(gather([*images, picture(height=64, width=64)])) in (30, 31)


def test_data_too_large_for_memory_stay_in_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index, image in enumerate(BATCH):
        (tmp_path / "cat").mkdir(exist_ok=True)
        Image.fromarray(image).save(tmp_path / "cat" / f"{index}.png")
    assert isinstance(read(gather(tmp_path), 12), ArrayImages)
    monkeypatch.setattr(decoded_inputs, "MAX_IN_MEMORY_BYTES", 1000)
    found = read(gather(tmp_path), 12)
    assert isinstance(found, FileImages)
    assert (found.read(torch.arange(3)).numpy() == BATCH).all()
    before = fingerprint(found)
    Image.fromarray(picture(9)).save(tmp_path / "cat" / "1.png")
    assert fingerprint(found) != before


def test_a_fingerprint_tells_pixels_apart() -> None:
    assert fingerprint(read(gather(BATCH), 12)) == fingerprint(read(gather(list(BATCH)), 12))
    assert fingerprint(read(gather(BATCH), 12)) != fingerprint(read(gather(BATCH[::-1]), 12))


def test_colours_are_measured_and_one_colour_has_some_deviation() -> None:
    images = torch.zeros(4, 8, 8, 3, dtype=torch.uint8)
    images[2:, :, :, 0] = 255
    mean, std = measure_colours(ArrayImages(images))
    assert mean == (0.5, 0.0, 0.0)
    assert std == (0.5, 0.0039, 0.0039)


# ---------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    ("labels", "plain"),
    [
        (["b", "a", "b"], ["b", "a", "b"]),
        (np.array(["b", "a", "b"]), ["b", "a", "b"]),
        (np.array([3, 1, 3]), [3, 1, 3]),
        (torch.tensor([3, 1, 3]), [3, 1, 3]),
        ((label for label in "bab"), ["b", "a", "b"]),
    ],
)
def test_labels_become_plain_text_or_numbers(labels: Any, plain: list[Any]) -> None:
    given = gather_labelled(BATCH, labels)
    assert given.labels == plain
    assert {type(label) for label in given.labels or ()} == {type(plain[0])}
    assert given.classes == sorted(set(plain))


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (["a", "b"], "3 images and 2 labels"),
        (None, "every image must have a label"),
        ("cat", "labels must be a list or an array; got str"),
        (7, "labels must be a list or an array; got int"),
        ([0.5, 1.5, 2.5], r"text or a whole number; got 0.5\.$"),
        ([1.0, 0.0, 1.0], r"got 1.0\. Give whole numbers, as labels.astype\(int\)"),
        (np.eye(3), r"one row per image, labels.argmax\(axis=1\)"),
        ([True, False, True], "text or a whole number; got True"),
        ([None, "a", "b"], "text or a whole number; got None"),
        (["", "a", "b"], "must have a name"),
        (["\udcff", "a", "b"], "must be valid text"),
    ],
)
def test_labels_that_are_of_no_use_are_told(labels: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        gather_labelled(BATCH, labels)


def test_a_folder_brings_its_own_labels(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    Image.fromarray(BATCH[0]).save(tmp_path / "cat" / "0.png")
    with pytest.raises(InputError, match="Leave the labels out"):
        gather_labelled(tmp_path, ["cat"])


# ---------------------------------------------------------------------------------- unusual files


def save(tmp_path: Path, name: str, image: Image.Image, **more: Any) -> Path:
    image.save(tmp_path / name, **more)
    return tmp_path / name


def test_files_of_unusual_kinds_are_read(tmp_path: Path) -> None:
    levels = (picture()[:, :, 0].astype(np.uint16) * 257).astype(np.int32)
    deep = save(tmp_path, "deep.png", Image.fromarray(levels).convert("I;16"))
    assert (as_read(deep) == picture()[:, :, :1]).all()
    print_colours = Image.new("CMYK", (12, 12), (0, 0, 0, 255))
    assert (as_read(save(tmp_path, "print.jpg", print_colours)) < 30).all()
    frames = [Image.new("RGB", (12, 12), colour) for colour in ("red", "blue")]
    moving = save(tmp_path, "moving.gif", frames[0], save_all=True, append_images=frames[1:])
    assert (as_read(moving)[0, 0, 0] == (255, 0, 0)).all()  # the first frame


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"just text", "must be a whole JPEG, PNG"),
        (b"", "must be a whole JPEG, PNG"),
        (truncated(), "must be a whole JPEG, PNG"),
        (bomb(), "at most 80,000,000 pixels"),
    ],
)
def test_a_file_that_is_no_image_is_named(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "bad.jpg"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"bad\.jpg .*{told}"):
        read(gather([path]), 12)
    if not content.startswith(b"\xff\xd8"):  # whose header is whole
        with pytest.raises(InputError, match=r"bad\.jpg"):
            read(gather([path]), shorter_side(gather([path])))


@pytest.mark.parametrize(
    ("images", "told"),
    [
        (None, "images must be a folder"),
        (7, "images must be a folder"),
        ({"a": 1}, "got dict"),
        (b"bytes", "got bytes"),
        ([], "at least one image"),
        (np.zeros((0, 8, 8), np.uint8), "at least one image"),
        (np.zeros((8, 8), np.uint8), r"shape \[8, 8\]. For one grey image, give images\[None\];"),
        (np.zeros((2, 8, 8, 5), np.uint8), r"image 0 must be \[H, W\]"),
        (np.zeros((2, 0, 8), np.uint8), r"shape \[2, 0, 8\]"),
        (np.full((1, 8, 8), 16.0), "float64 from 16 to 16. Scale it"),
        (np.full((1, 8, 8), np.nan), "finite numbers; got NaN or infinity"),
        (np.full((1, 8, 8), 40_000, np.uint16), "uint16 from 40000"),
        (np.zeros((1, 8, 8), bool), "got bool"),
        (np.zeros((1, 8, 8), complex), "got complex128"),
        ([np.zeros((8, 8), np.uint8), 5], "image 1 must be an array, a PIL image or a path; got 5"),
        ("/no/such/folder", "does not exist"),
        (["/no/such/file.png"], "cannot be read"),
    ],
)
def test_what_is_no_image_is_told_in_a_sentence(images: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read(gather(images), 8)


def test_empty_folders_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds neither folders nor images"):
        gather(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(InputError, match="must hold the images of its class"):
        gather(tmp_path)


def test_a_broken_picture_of_pillow_is_told(tmp_path: Path) -> None:
    (tmp_path / "half.jpg").write_bytes(truncated())
    with (
        Image.open(tmp_path / "half.jpg") as half,
        pytest.raises(InputError, match="image 1 must be a whole"),
    ):
        read(gather([BATCH[0], half]), 12)
