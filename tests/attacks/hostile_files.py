"""E: images that are damaged or lie, and files that are no files.

Whatever is in a folder is decoded to pixels or refused with a sentence; nothing waits for ever.
"""

from __future__ import annotations

import io
import math
import os
import random
import socket
import struct
import warnings
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from remnant.data.decode import MAX_PIXELS, MAX_SIDE, decode_file
from remnant.data.decoding_memory import DECODING_BYTES
from remnant.errors import InputError
from tests.attacks.mutants import mutate_bytes
from tests.attacks.tally import Tally
from tests.support.picture_files import textured
from tests.support.small_learner import stripes, tiny_learner

FORMATS = ("png", "jpeg", "gif", "bmp", "webp")
SECONDS, MEGABYTES = 2.0, 300.0  # that an image may take
# What a pixel takes while it is decoded, by format and mode.
_COSTS: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("png", "1", 5, {}), ("png", "L", 5, {}), ("png", "LA", 8, {}), ("png", "P", 5, {}),
    ("png", "RGB", 4, {}), ("png", "RGBA", 8, {}), ("png", "I;16", 6, {}), ("gif", "P", 5, {}),
    ("bmp", "RGB", 4, {}), ("jpeg", "RGB", 4, {}), ("jpeg", "CMYK", 8, {}),
    ("jpeg", "L", 7, {"progressive": True}), ("jpeg", "RGB", 10, {"progressive": True}),
    ("jpeg", "CMYK", 16, {"progressive": True}), ("webp", "RGB", 16, {"quality": 1}),
    ("webp", "RGBA", 20, {"quality": 1}),
)  # fmt: skip
_SIZE = 16
_MANY = 200  # tries, from which on large pictures are worth their time


def whole_files(chance: random.Random) -> dict[str, bytes]:
    """An image in every format, of a random size."""
    found = {}
    for name in FORMATS:
        stream = io.BytesIO()
        textured(chance.randrange(1, 60), chance.randrange(1, 60)).save(stream, name)
        found[name] = stream.getvalue()
    return found


def png_that_claims(width: int, height: int) -> bytes:
    """A file of a few bytes with a header of any size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0"))


@cache
def bombs() -> dict[str, bytes]:
    """Small files with as many pixels as may be decoded, or more, in every kind of pixel."""
    found = {}
    for kind, mode, bytes_per_pixel, options in _COSTS:
        side = math.isqrt(DECODING_BYTES // bytes_per_pixel)
        what = " ".join([kind, mode, *options])
        found[f"{what} {side} x {side}"] = _flat(mode, side, side, kind, **options)
    side = math.isqrt(MAX_PIXELS)
    for mode in ("1", "RGB", "RGBA"):
        found[f"png {mode} {side} x {side}"] = _flat(mode, side, side, "png")
    for width, height in ((1, MAX_SIDE), (MAX_SIDE, 1), (MAX_SIDE, 1000), (1, MAX_SIDE + 1)):
        found[f"png {width} x {height}"] = _flat("RGB", width, height, "png")
    found["gif of 2,000 frames"] = _animated(2000)
    return found


def _flat(mode: str, width: int, height: int, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    if kind == "png":
        options["compress_level"] = 1  # which makes them soonest
    Image.new(mode, (width, height)).save(stream, kind, **options)
    return stream.getvalue()


def _animated(num_frames: int) -> bytes:
    frames = [Image.new("L", (64, 64), index % 256) for index in range(num_frames)]
    stream = io.BytesIO()
    frames[0].save(stream, "gif", save_all=True, append_images=frames[1:])
    return stream.getvalue()


def hostile_image(chance: random.Random, number: int) -> tuple[str, bytes]:
    """What it is, and a file; one in ten is a whole image, one in ten has too large a head."""
    kind, content = chance.choice(sorted(whole_files(chance).items()))
    if number % 10 == 9:
        sides = [chance.choice([0, 1, 2**16, 2**31 - 1]) for _ in range(2)]
        return f"png of {sides}", png_that_claims(*sides)
    return kind, mutate_bytes(content, chance) if number % 10 else content


def _decode(tally: Tally, what: str, path: Path) -> None:
    with tally.trying(what, seconds=SECONDS, megabytes=MEGABYTES):
        pixels = decode_file(path, _SIZE)
        assert pixels.shape == (_SIZE, _SIZE, 3), "it gives another shape"
        assert pixels.dtype == np.uint8, "it gives no bytes"


def attack_images(folder: Path, seed: int, count: int) -> Tally:
    folder.mkdir(parents=True)
    chance, tally = random.Random(seed), Tally()
    for number in range(count):
        kind, content = hostile_image(chance, number)
        path = folder / f"{number}.{chance.choice(FORMATS)}"
        path.write_bytes(content)
        _decode(tally, f"image {number} of seed {seed}, {kind}", path)
        path.unlink()
    return tally


def attack_with_bombs(folder: Path) -> Tally:
    folder.mkdir(parents=True)
    tally = Tally()
    for number, (what, content) in enumerate(bombs().items()):
        path = folder / f"{number}.png"
        path.write_bytes(content)
        _decode(tally, what, path)
        path.unlink()
    return tally


def attack_folder(folder: Path, num_good: int, num_bad: int) -> Tally:
    """Bad images among good ones: the good ones are learned, the bad ones named."""
    chance, tally = random.Random(0), Tally()
    for name in ("a", "c"):
        (folder / name).mkdir(parents=True)
        images, _ = stripes(name, per_class=num_good // 2, seed=ord(name))
        for number, image in enumerate(images):
            Image.fromarray(image).save(folder / name / f"{number}.png")
    bad = [folder / "a" / f"bad-{number}.png" for number in range(num_bad)]
    for path in bad:
        path.write_bytes(chance.randbytes(100))
    learner = tiny_learner(epochs=1)
    with warnings.catch_warnings(), tally.trying("a folder with bad images"):
        warnings.simplefilter("ignore")
        learner.partial_fit(str(folder))
        (update,) = learner.history_
        learned = update["images"] + update["measured_images"]
        assert learned == num_good // 2 * 2, f"{learned} of {num_good} are learned"
    return tally


def special_files(folder: Path) -> list[Path]:
    """What may stand in a folder under the name of an image."""
    folder.mkdir(parents=True)
    paths = [folder / f"{name}.png" for name in ("fifo", "folder", "loop", "dangling", "empty")]
    os.mkfifo(paths[0])
    paths[1].mkdir()
    paths[2].symlink_to(paths[2])
    paths[3].symlink_to(folder / "nowhere")
    paths[4].touch()
    unreadable = folder / "secret.png"
    Image.new("RGB", (4, 4)).save(unreadable)
    unreadable.chmod(0)
    odd = folder / os.fsdecode(b"\xff\x1b[2J\n.png")
    Image.new("RGB", (4, 4)).save(odd)
    devices = [
        Path(name) for name in ("/dev/null", "/dev/zero", "/dev/full") if os.path.exists(name)
    ]
    with socket.socket(socket.AF_UNIX) as server:
        place = folder / "s.png"
        if len(str(place)) < 100:  # a limit of sockets
            server.bind(str(place))
            paths.append(place)
    return [*paths, unreadable, odd, *devices]


def attack_special_files(folder: Path) -> Tally:
    tally = Tally()
    for path in special_files(folder):
        try:
            pixels = decode_file(path, _SIZE)
            is_image = path.name.startswith(("secret", os.fsdecode(b"\xff")))  # root reads all
            problem = None if is_image and pixels.shape[2] == 3 else "it is taken for an image"
        except InputError:
            problem = None
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        tally.add(None if problem is None else f"{path.name!r}: {problem}")
    return tally


def attack(folder: Path, seed: int, count: int) -> Tally:
    tally = attack_images(folder / "images", seed, count)
    tally.join(attack_special_files(folder / "special"))
    tally.join(attack_folder(folder / "good and bad", 300, 10))
    if count >= _MANY:
        tally.join(attack_with_bombs(folder / "bombs"))
    return tally
