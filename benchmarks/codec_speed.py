"""How many exemplars does a core decode in a second: one at a time, and many together?

    python benchmarks/codec_speed.py
    python benchmarks/codec_speed.py --side 224 --images 16 --codecs transform jpeg

Pieces of photographs are stored by every codec and decoded, as a Markdown table. Where numba is
installed (the extra `fast`), `transform` has a compiled loop; the row "plain" is the same codec
without it, in the same run, and the pixels are compared. Times are of the processor, with one
thread; each is the best of five.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_images

from remnant.memory import CODECS, Candidate, Codec, Exemplar
from remnant.memory.codecs.transform import transform_codec
from remnant.randomness import generator

HEADER = "| codec | decoder | bytes | encode/s | one at a time/s | together/s |\n|---|---|"
HEADER += "---:|---:|---:|---:|"


def photographs(count: int, side: int) -> list[np.ndarray]:
    """Square pieces of two photographs, scaled down as the images of data sets are."""
    chance, pieces = np.random.default_rng(0), []
    for index in range(count):
        image = Image.fromarray(load_sample_images().images[index % 2])
        edge = min(4 * side, *image.size)
        left, top = (int(chance.integers(0, size - edge + 1)) for size in image.size)
        piece = image.crop((left, top, left + edge, top + edge))
        pieces.append(np.asarray(piece.resize((side, side), Image.Resampling.BOX)))
    return pieces


def rate(work: Callable[[], object], count: int) -> float:
    """Exemplars per second of the processor, at best."""
    times = []
    for _ in range(5):
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    return count / max(min(times), 1e-9)


def measure(name: str, decoder: str, codec: Codec, images: list[np.ndarray]) -> list[np.ndarray]:
    """Print a row and return the images decoded."""

    def encode() -> list[Exemplar]:
        pairs = enumerate(map(Candidate, images))
        return [codec.encode(one, generator(0, "bench", index)) for index, one in pairs]

    exemplars = encode()
    decoded = [image for image, _ in codec.decode_many(exemplars)]  # compiles what there is
    size = sum(len(one.payload) + len(one.positions) for one in exemplars) / len(exemplars)
    some, many = exemplars[:32], exemplars * max(1, 256 // len(exemplars))
    rates = (
        rate(encode, len(images)),
        rate(lambda: [codec.decode(one) for one in some], len(some)),
        rate(lambda: codec.decode_many(many), len(many)),
    )
    cells = (name, decoder, f"{size:,.0f}", *(f"{one:,.0f}" for one in rates))
    print("| " + " | ".join(cells) + " |", flush=True)
    return decoded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--codecs", nargs="+", default=list(CODECS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    images = photographs(arguments.images, arguments.side)
    has_loop = transform_codec.find_compiled("compiled_loop") is not None
    print(HEADER, flush=True)
    for name in arguments.codecs:
        settings = {"patch_size": 16} if CODECS[name].is_partial and arguments.side > 64 else {}
        codec = CODECS[name](CODECS[name].Config.parse(settings), images[0].shape)
        is_ours = name in ("transform", "coded-patches")
        decoded = measure(name, "compiled" if is_ours and has_loop else "plain", codec, images)
        if is_ours and has_loop:
            with patch.object(transform_codec, "find_compiled", lambda _: None):
                plain = measure(name, "plain", codec, images)
            assert np.array_equal(decoded, plain), "both decoders must give the same pixels"


if __name__ == "__main__":
    main()
