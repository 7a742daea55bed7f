"""Claims about the memory that pictures take while they are decoded."""

from __future__ import annotations

import io
import struct
import threading
import traceback
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from remnant.data import decoding_memory
from remnant.data.decode import decode_file, decode_stream, picture_size
from remnant.data.decoding_memory import MemoryGate, decoding_bytes, webp_bytes
from remnant.errors import InputError

PIXELS = 40 * 30


def stored(mode: str, file_format: str, **options: object) -> io.BytesIO:
    stream = io.BytesIO()
    Image.new(mode, (40, 30)).save(stream, file_format, **options)
    stream.seek(0)
    return stream


def png_that_claims(width: int, height: int, colour: int = 2) -> io.BytesIO:
    """A header without pixels; colour 2 is RGB, 6 is RGBA."""
    content = io.BytesIO(b"\x89PNG\r\n\x1a\n")
    content.seek(0, io.SEEK_END)
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    for kind, body in ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b"")):
        content.write(struct.pack(">I", len(body)) + kind + body)
        content.write(struct.pack(">I", zlib.crc32(kind + body)))
    content.seek(0)
    return content


def test_a_picture_of_one_column_is_refused_before_decoding() -> None:
    """Pillow spends 20 bytes on every row: 80 million rows would take 1.6 GB."""
    with pytest.raises(InputError, match="sides of at most 65,535 pixels; it is 1 x 80,000,000"):
        decode_stream(png_that_claims(1, 80_000_000), 8, "tall.png")


@pytest.mark.parametrize(
    ("mode", "file_format", "options", "bytes_per_pixel"),
    [
        ("RGB", "PNG", {}, 4),
        ("RGBA", "PNG", {}, 4 + 4),
        ("L", "PNG", {}, 1 + 4),
        ("I;16", "PNG", {}, 3 + 4),
        ("P", "PNG", {"transparency": 0}, 1 + 4),
        ("RGB", "JPEG", {}, 4),
        ("RGB", "JPEG", {"progressive": True}, 4 + 3 * 2),
    ],
)
def test_bytes_follow_from_mode_and_format(
    mode: str, file_format: str, options: dict[str, object], bytes_per_pixel: int
) -> None:
    with Image.open(stored(mode, file_format, **options)) as picture:
        assert decoding_bytes(picture, PIXELS) == bytes_per_pixel * PIXELS


@pytest.mark.parametrize("options", [{}, {"lossless": True}], ids=["lossy", "lossless"])
@pytest.mark.parametrize(("alpha", "bytes_per_pixel"), [(None, 4 + 12), (77, 4 + 4 + 12)])
def test_the_size_of_a_webp_is_known_before_it_is_opened(
    options: dict[str, object], alpha: int | None, bytes_per_pixel: int
) -> None:
    picture, file = Image.effect_noise((40, 30), 90).convert("RGB"), io.BytesIO()
    if alpha is not None:
        picture.putalpha(alpha)
    picture.save(file, "WEBP", **options)
    file.seek(0)
    assert webp_bytes(file) == bytes_per_pixel * PIXELS
    assert file.tell() == 0
    assert webp_bytes(io.BytesIO(file.getvalue()[:29])) == 0  # no header


def test_a_webp_waits_for_memory_before_it_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow's decoder allocates its canvases when it opens a file."""
    gate, opened = MemoryGate(16 * PIXELS, little=0), []
    plain = Image.open

    def note(*arguments: Any, **options: Any) -> Image.Image:
        opened.append(gate._held)
        return plain(*arguments, **options)

    monkeypatch.setattr(Image, "open", note)
    decode_stream(stored("RGB", "WEBP"), 8, "a.webp", gate=gate)
    assert opened == [16 * PIXELS]
    assert gate._held == 0
    with pytest.raises(InputError, match=r"a\.webp must take at most .* of memory while"):
        decode_stream(stored("RGB", "WEBP"), 8, "a.webp", gate=MemoryGate(15 * PIXELS))
    assert len(opened) == 1


def test_the_size_of_a_huge_webp_is_not_asked_of_its_decoder(tmp_path: Path) -> None:
    """Its canvases would take more than a gigabyte."""
    file = bytearray(stored("RGBA", "WEBP", lossless=True).getvalue())
    assert file[12:16] == b"VP8L"
    bits = int.from_bytes(file[21:25], "little") & ~0xFFFFFFF | 11_999 << 14 | 11_999
    file[21:25] = bits.to_bytes(4, "little")
    (tmp_path / "huge.webp").write_bytes(file)
    with pytest.raises(InputError, match="must take at most 256 MiB of memory while it is decoded"):
        picture_size(tmp_path / "huge.webp")
    (tmp_path / "small.png").write_bytes(stored("RGB", "PNG").getvalue())
    assert picture_size(tmp_path / "small.png") == (40, 30)


def test_what_takes_too_much_memory_is_refused() -> None:
    gate = MemoryGate(5 * PIXELS)
    decode_stream(stored("RGB", "PNG"), 8, "opaque.png", gate=gate)
    with pytest.raises(InputError, match=r"clear\.png must take at most .* of memory while"):
        decode_stream(stored("RGBA", "PNG"), 8, "clear.png", gate=gate)


def test_a_file_that_takes_too_much_memory_is_refused_before_decoding(tmp_path: Path) -> None:
    path = tmp_path / "clear.png"
    path.write_bytes(png_that_claims(6000, 6000, colour=6).getvalue())  # 8 bytes for each pixel
    with pytest.raises(InputError, match=r"clear\.png must take at most 256 MiB .* takes 274 MiB"):
        decode_file(path, 8)


def test_threads_together_hold_no_more_than_the_limit() -> None:
    gate, lock = MemoryGate(100, little=0), threading.Lock()
    held, most = 0, 0

    def decode(num_bytes: int) -> None:
        nonlocal held, most
        for _ in range(50):
            with gate.hold(num_bytes):
                with lock:
                    held += num_bytes
                    most = max(most, held)
                with lock:
                    held -= num_bytes

    threads = [threading.Thread(target=decode, args=(size,)) for size in (30, 40, 50, 60, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert 0 < most <= 100


def test_small_pictures_do_not_wait_for_large_ones() -> None:
    gate, may_leave = MemoryGate(512, little=2), threading.Event()
    is_inside = [threading.Event() for _ in range(2)]

    def hold_large(number: int) -> None:
        with gate.hold(512):
            is_inside[number].set()
            assert may_leave.wait(60)

    threads = [threading.Thread(target=hold_large, args=(number,)) for number in range(2)]
    threads[0].start()
    assert is_inside[0].wait(60)
    threads[1].start()  # waits
    with gate.hold(2):
        assert not is_inside[1].is_set()
    may_leave.set()
    for thread in threads:
        thread.join(60)
    assert is_inside[1].is_set()


def test_more_than_the_limit_is_had_alone() -> None:
    gate, is_inside, may_leave = MemoryGate(100, little=0), threading.Event(), threading.Event()
    has_entered = threading.Event()

    def hold_small() -> None:
        with gate.hold(1):
            is_inside.set()
            assert may_leave.wait(60)

    def hold_large() -> None:
        with gate.hold(1000):
            has_entered.set()

    small, large = threading.Thread(target=hold_small), threading.Thread(target=hold_large)
    small.start()
    assert is_inside.wait(60)
    large.start()
    assert not has_entered.wait(0.05)
    may_leave.set()
    assert has_entered.wait(60)
    small.join(60)
    large.join(60)


def test_memory_of_a_picture_that_does_not_decode_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given_back = []
    monkeypatch.setattr(decoding_memory, "_give_back", lambda: given_back.append(True))
    with pytest.raises(InputError, match="does not decode") as caught:
        decode_stream(png_that_claims(2000, 2000), 8, "cut.png")
    assert given_back
    context = caught.value.__context__
    assert context is not None
    frames = [frame for frame, _ in traceback.walk_tb(context.__traceback__)]
    decoding = [frame for frame in frames if frame.f_code.co_name == "_cut_out"]
    assert decoding
    assert all(not frame.f_locals for frame in decoding)  # they would hold the pixels


def test_what_is_larger_than_the_shared_part_is_had_alone() -> None:
    gate, inside = MemoryGate(100, little=0, shared=50), threading.Event()
    with gate.hold(20):
        with gate.hold(30):
            pass
        waiting = threading.Thread(target=lambda: _enter(gate, 90, inside))
        waiting.start()
        assert not inside.wait(0.2)
    assert inside.wait(10)
    waiting.join()


def _enter(gate: MemoryGate, num_bytes: int, inside: threading.Event) -> None:
    with gate.hold(num_bytes):
        inside.set()
