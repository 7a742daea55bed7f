"""Claims about reading one image file, honest or not."""

from __future__ import annotations

import errno
import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from remnant.data import decode
from remnant.data.decode import FailingDiskError, decode_file, to_rgb
from remnant.errors import InputError
from remnant.images import resized_crop
from tests.support.picture_files import flat, textured

DRAW = (0.3, 0.8, 0.6, 0.2)


def literal_test_framing(picture: Image.Image, size: int, shorter: int) -> np.ndarray:
    """Resize the shorter side, then crop the centre: two steps, as the protocol says."""
    scale = shorter / min(picture.size)
    width, height = round(picture.width * scale), round(picture.height * scale)
    left, top = (width - size) // 2, (height - size) // 2
    resized = picture.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(resized.crop((left, top, left + size, top + size)))


def largest_difference(left: np.ndarray, right: np.ndarray) -> int:
    return int(np.abs(left.astype(int) - right.astype(int)).max())


@pytest.mark.parametrize("shape", [(300, 500), (500, 300), (231, 640), (90, 70)])
def test_large_images_are_resized_to_256_and_cropped_to_224(
    shape: tuple[int, int], tmp_path: Path
) -> None:
    picture = textured(*shape)
    picture.save(tmp_path / "a.png")
    expected = literal_test_framing(picture, 224, 256)
    assert largest_difference(decode_file(tmp_path / "a.png", 224), expected) <= 1


def test_small_images_of_the_right_size_come_back_untouched(tmp_path: Path) -> None:
    picture = textured(64, 64)
    picture.save(tmp_path / "a.png")
    assert np.array_equal(decode_file(tmp_path / "a.png", 64), np.asarray(picture))


def test_random_crop_is_that_of_the_contract(tmp_path: Path) -> None:
    picture = textured(300, 200)
    picture.save(tmp_path / "a.png")
    expected = resized_crop(np.asarray(picture), DRAW, (96, 96))
    assert np.array_equal(decode_file(tmp_path / "a.png", 96, DRAW), expected)


@pytest.mark.parametrize("draw", [None, DRAW], ids=["test", "random"])
def test_large_jpeg_is_decoded_reduced_and_looks_the_same(
    draw: tuple[float, ...] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    textured(1600, 1200).save(tmp_path / "a.jpg", quality=95)
    sizes = []

    def spy(picture: Image.Image) -> Image.Image:
        sizes.append(picture.size)
        return picture.convert("RGB")

    monkeypatch.setattr(decode, "to_rgb", spy)
    reduced = decode_file(tmp_path / "a.jpg", 96, draw)
    monkeypatch.setattr(decode, "_draft", lambda *_, **__: None)
    full = decode_file(tmp_path / "a.jpg", 96, draw)
    assert sizes[0][0] < sizes[1][0] == 1600
    assert np.abs(reduced.astype(int) - full.astype(int)).mean() < 1.5


@pytest.mark.parametrize("draw", [DRAW, (0.0, 0.1, 0.4, 0.9), (0.999, 0.5, 0.0, 0.0)])
def test_crop_of_an_ordinary_jpeg_is_that_of_its_whole_decode(
    draw: tuple[float, ...], tmp_path: Path
) -> None:
    """At 500 px a crop of 224 never has pixels to spare, so nothing is decoded reduced."""
    textured(500, 375).save(tmp_path / "a.jpg")
    with Image.open(tmp_path / "a.jpg") as whole:
        expected = resized_crop(np.asarray(whole), draw, (224, 224))
    assert np.array_equal(decode_file(tmp_path / "a.jpg", 224, draw), expected)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("draw", [None, DRAW], ids=["test", "random"])
def test_pictures_are_turned_upright_before_they_are_framed(
    orientation: int, draw: tuple[float, ...] | None, tmp_path: Path
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    textured(300, 200).save(tmp_path / "a.png", exif=exif)
    with Image.open(tmp_path / "a.png") as stored:
        upright = ImageOps.exif_transpose(stored)
    upright.save(tmp_path / "upright.png")
    turned = decode_file(tmp_path / "a.png", 96, draw)
    assert np.array_equal(turned, decode_file(tmp_path / "upright.png", 96, draw))


def test_turned_jpeg_is_reduced_along_the_right_sides(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = textured(1600, 800)
    picture.save(tmp_path / "a.jpg", exif=exif, quality=95)
    expected = literal_test_framing(picture.transpose(Image.Transpose.ROTATE_270), 96, 110)
    assert np.abs(decode_file(tmp_path / "a.jpg", 96).astype(int) - expected).mean() < 2


def first_pixel(picture: Image.Image, name: str, folder: Path, **options: object) -> list[int]:
    picture.save(folder / name, **options)
    return decode_file(folder / name, 8)[0, 0].tolist()


def test_every_kind_of_pixel_becomes_eight_bit_rgb(tmp_path: Path) -> None:
    grey = flat(90)
    assert first_pixel(grey.convert("L"), "l.png", tmp_path) == [90] * 3
    assert first_pixel(Image.new("1", (8, 8), 1), "1.png", tmp_path) == [255] * 3
    assert first_pixel(grey.convert("P"), "p.gif", tmp_path) == pytest.approx([90] * 3, abs=26)
    assert first_pixel(grey.convert("CMYK"), "c.jpg", tmp_path) == pytest.approx([90] * 3, abs=2)
    deep = Image.fromarray(np.full((8, 8), 90 * 257, np.uint16))
    assert first_pixel(deep, "16.png", tmp_path) == [90] * 3
    assert first_pixel(grey, "w.webp", tmp_path, lossless=True) == [90] * 3
    assert first_pixel(grey, "b.bmp", tmp_path) == [90] * 3


@pytest.mark.parametrize("mode", ["RGBA", "I;16"])
def test_tall_pictures_are_converted_the_same_in_strips(mode: str) -> None:
    chance = np.random.default_rng(0)
    if mode == "RGBA":
        picture = Image.fromarray(chance.integers(0, 256, (600, 3, 4), dtype=np.uint8))
        page = Image.new("RGBA", picture.size, "white")
        expected = np.asarray(Image.alpha_composite(page, picture).convert("RGB"))
    else:
        levels = chance.integers(0, 65536, (600, 3), dtype=np.uint16)
        picture = Image.fromarray(levels)
        expected = np.rint(levels / 257)[..., None].repeat(3, axis=2)
    assert (np.asarray(to_rgb(picture)) == expected).all()


def test_what_is_transparent_shows_white(tmp_path: Path) -> None:
    assert first_pixel(Image.new("RGBA", (8, 8), (9, 9, 9, 0)), "a.png", tmp_path) == [255] * 3
    assert first_pixel(Image.new("LA", (8, 8), (9, 0)), "la.png", tmp_path) == [255] * 3
    half = first_pixel(Image.new("RGBA", (8, 8), (0, 0, 0, 128)), "half.png", tmp_path)
    assert half == pytest.approx([127] * 3, abs=1)
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([10, 10, 10] * 2)
    assert first_pixel(palette, "p.png", tmp_path, transparency=0) == [255] * 3
    assert first_pixel(flat(10), "t.png", tmp_path, transparency=(10, 10, 10)) == [255] * 3


def test_first_frame_of_an_animation_is_taken(tmp_path: Path) -> None:
    first, second = flat(0), flat(255)
    first.save(tmp_path / "a.gif", save_all=True, append_images=[second])
    assert decode_file(tmp_path / "a.gif", 8).max() == 0


@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "bmp", "gif"])
def test_truncated_file_is_refused_and_named(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"cut.{ending}"
    textured(60, 60).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=rf"cut\.{ending} must be a whole"):
        decode_file(path, 8)


def test_truncated_jpeg_is_refused_even_when_decoded_reduced(tmp_path: Path) -> None:
    path = tmp_path / "cut.jpg"
    textured(1600, 1200).save(path)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(InputError, match="must be a whole"):
        decode_file(path, 8)


def test_formats_outside_the_list_are_refused_whatever_their_name(tmp_path: Path) -> None:
    for file_format in ("TIFF", "PPM", "ICO", "EPS"):
        path = tmp_path / "a.jpg"
        flat(1, 16).save(path, file_format)
        with pytest.raises(InputError, match="must be a whole JPEG"):
            decode_file(path, 8)


def test_a_failing_disk_is_not_called_a_broken_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    flat(1, 16).save(tmp_path / "a.png")
    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(FailingDiskError, match=r"a\.png cannot be read \(Input/output error\)"):
        decode_file(tmp_path / "a.png", 8)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.png cannot be read"):
        decode_file(tmp_path / "gone.png", 8)


def test_too_many_pixels_are_refused_before_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat(0, 16).save(tmp_path / "large.png")
    monkeypatch.setattr(decode, "MAX_PIXELS", 255)
    with pytest.raises(InputError, match=r"large\.png must have at most 255 pixels"):
        decode_file(tmp_path / "large.png", 8)


def test_header_that_claims_a_billion_pixels_is_refused(tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    content = io.BytesIO(b"\x89PNG\r\n\x1a\n")
    content.seek(0, io.SEEK_END)
    for kind, body in ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b"")):
        content.write(struct.pack(">I", len(body)) + kind + body)
        content.write(struct.pack(">I", zlib.crc32(kind + body)))
    (tmp_path / "bomb.png").write_bytes(content.getvalue())
    with pytest.raises(InputError, match=r"bomb\.png must have at most 80,000,000 pixels"):
        decode_file(tmp_path / "bomb.png", 8)


def encoded(file_format: str) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    stream = io.BytesIO()
    options = {} if file_format in ("BMP", "GIF") else {"exif": exif}
    textured(40, 30).save(stream, file_format, **options)
    return stream.getvalue()


ENCODED = {file_format: encoded(file_format) for file_format in decode.FORMATS}


@pytest.mark.filterwarnings("ignore")  # Pillow warns of some damage that it survives
@settings(max_examples=150, deadline=None)
@given(
    file_format=st.sampled_from(decode.FORMATS),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_damaged_files_give_an_image_or_a_clear_error(
    file_format: str,
    changes: list[tuple[float, int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    content = bytearray(ENCODED[file_format])
    for place, value in changes:
        content[int(place * (len(content) - 1))] = value
    path = tmp_path_factory.getbasetemp() / "damaged.jpg"
    path.write_bytes(content)
    try:
        image = decode_file(path, 8)
    except InputError:
        return
    assert image.shape == (8, 8, 3)
