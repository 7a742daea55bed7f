"""E: images that are damaged or lie, and files that are no files.

Whatever is in a folder is decoded to pixels or refused with a sentence; nothing waits for ever.
"""

from __future__ import annotations

import io
import os
import random
import socket
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from remnant.data.decode import decode_file
from remnant.errors import InputError
from tests.attacks.mutants import mutate_bytes
from tests.attacks.tally import Tally
from tests.support.picture_files import textured

FORMATS = ("png", "jpeg", "gif", "bmp", "webp")
_SIZE = 16


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


def attack_images(folder: Path, seed: int, count: int) -> Tally:
    folder.mkdir(parents=True)
    chance, tally = random.Random(seed), Tally()
    for number in range(count):
        kind, content = chance.choice(sorted(whole_files(chance).items()))
        if number % 10 == 9:
            sides = [chance.choice([0, 1, 2**16, 2**31 - 1]) for _ in range(2)]
            content = png_that_claims(*sides)
        elif number % 10:  # one in ten is as it was
            content = mutate_bytes(content, chance)
        path = folder / f"{number}.{chance.choice(FORMATS)}"
        path.write_bytes(content)
        with tally.trying(f"image {number} of seed {seed}, {kind}"):
            pixels = decode_file(path, _SIZE)
            assert pixels.shape == (_SIZE, _SIZE, 3), "it gives another shape"
            assert pixels.dtype == np.uint8, "it gives no bytes"
        path.unlink()
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
    return tally
