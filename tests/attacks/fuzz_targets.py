"""Every parser that reads bytes from strangers, as a function of bytes for a fuzzer.

A target returns for what it reads or refuses with a sentence, and raises for everything else. The
files in `corpus/`, if there are any, are inputs that once made one raise.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from remnant.archives import archive_digest, read_archive
from remnant.data.archive_members import unpack
from remnant.data.decode import decode_stream
from remnant.data.decoding_memory import MemoryGate
from remnant.errors import InputError
from remnant.learner.receipts import read_receipt
from remnant.memory import Candidate, Exemplar, Memory, MemoryConfig
from remnant.randomness import generator
from remnant.serving.guard import Rules
from remnant.serving.uploads import check_name
from tests.attacks.crash_states import make_store
from tests.attacks.hostile_archives import archive_spec, hostile_tar, hostile_zip
from tests.attacks.hostile_files import whole_files
from tests.attacks.mutants import mutate_arrays, mutate_bytes, mutate_header, use
from tests.support.all_codecs import ALL, make_codec
from tests.support.strategies import smooth

Target = Callable[[bytes], None]
CORPUS = Path(__file__).parent / "corpus"
_SHAPE = (16, 20, 3)


@cache
def _folder() -> Path:
    """In memory where the system has such a place: a fuzzer writes thousands of files."""
    shared = Path("/dev/shm")
    kept = tempfile.mkdtemp(prefix="fuzz-", dir=shared if shared.is_dir() else None)
    return Path(kept)


def _as_file(content: bytes, name: str) -> Path:
    path = _folder() / name
    path.write_bytes(content)
    return path


# --------------------------------------------------------------------------------------- archives


def parse_archive(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """Header and arrays of a file that remnant could have written but for its checksum."""
    try:
        arrays = safetensors.numpy.load(content)
        length = int.from_bytes(content[:8], "little")
        header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["remnant"])
        header.pop("digest", None)
        return header, arrays
    except Exception:  # whatever it is, it is not such a file
        return None


def pack_archive(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The file with a right checksum."""
    header = {**header, "digest": archive_digest(header, arrays)}
    text = json.dumps(header, sort_keys=True, allow_nan=False)
    return safetensors.numpy.save(arrays, metadata={"remnant": text})


def _rightly_summed(content: bytes) -> bytes:
    """The same content with a right checksum, as far as it is an archive."""
    parsed = parse_archive(content)
    if parsed is None:
        return content
    with suppress(ValueError, TypeError, OverflowError):
        return pack_archive(*parsed)
    return content


def fuzz_archive(content: bytes) -> None:
    with suppress(InputError):
        read_archive(_as_file(content, "archive"), "store", 1)


def fuzz_store(content: bytes) -> None:
    with suppress(InputError):
        use(_as_file(_rightly_summed(content), "fuzzed.remnant"))


def fuzz_memory(content: bytes) -> None:
    with suppress(InputError):
        memory = Memory.load(_as_file(_rightly_summed(content), "memory.safetensors"))
        memory.images()


def mutate_archive(content: bytes, chance: random.Random) -> bytes:
    """A mutant of an archive that is an archive in most cases; its checksum need not be right."""
    parsed = parse_archive(content)
    if parsed is None or chance.random() < 0.1:
        return mutate_bytes(content, chance)
    header, arrays = parsed
    try:
        for _ in range(chance.choice([1, 1, 2, 4])):
            if chance.random() < 0.4 and arrays:
                mutate_arrays(arrays, chance)
            else:
                mutate_header(header, chance)
        return pack_archive(header, arrays)
    except Exception:  # no file can hold it, or nothing is left to change
        return content


# ----------------------------------------------------------------------------------------- images


def _codec_target(choice: dict[str, Any]) -> Target:
    codec = make_codec(choice, _SHAPE)
    positions = codec.encode(Candidate(smooth(_SHAPE, 0)), generator(0)).positions

    def fuzz(content: bytes) -> None:
        exemplar = Exemplar(content, positions)
        with suppress(InputError):
            codec.check(exemplar)
            image, _ = codec.decode(exemplar)
            assert (image.shape, image.dtype) == (_SHAPE, np.uint8), "it gives another shape"

    return fuzz


def fuzz_decode(content: bytes) -> None:
    with suppress(InputError):
        found = decode_stream(io.BytesIO(content), 16, "the image", gate=MemoryGate(1 << 26))
        assert (found.shape, found.dtype) == ((16, 16, 3), np.uint8), "it gives another shape"


# ------------------------------------------------------------------------------------ other input


def fuzz_download(content: bytes) -> None:
    for name in ("a.tar.gz", "a.zip"):
        path = _as_file(content, name)
        destination = Path(tempfile.mkdtemp(dir=_folder()))
        with suppress(InputError):
            unpack(archive_spec(name, len(content)), path, destination)
        shutil.rmtree(destination)


def fuzz_request(content: bytes) -> None:
    """Names and headers, as the server meets them: text of any kind."""
    text = content.decode("latin-1")
    with suppress(InputError):
        name = check_name(content.decode("utf-8", "replace"))
        name.encode()
        assert len(name.splitlines()) == 1, "a name of several lines"
    rules = Rules(token="0123456789abcdef")
    headers = dict(line.partition(": ")[::2] for line in text.split("\n"))
    assert not rules.is_authorized(headers) or "0123456789abcdef" in text, "no token is needed"
    rules.accepts_host(text)


def fuzz_receipt(content: bytes) -> None:
    with suppress(InputError):
        read_receipt(_as_file(content, "receipt.json"))


def name_of(choice: dict[str, Any]) -> str:
    return "codec-" + "-".join(str(value).replace(":", "") for value in choice.values())


_TARGETS: dict[str, Target] = {
    "archive": fuzz_archive,
    "store": fuzz_store,
    "memory": fuzz_memory,
    "decode": fuzz_decode,
    "download": fuzz_download,
    "request": fuzz_request,
    "receipt": fuzz_receipt,
}
_CODECS = {name_of(choice): choice for choice in ALL}
_ARCHIVES = ("archive", "store", "memory")
NAMES = (*_TARGETS, *_CODECS)


def target_of(name: str) -> Target:
    return _TARGETS[name] if name in _TARGETS else _codec_target(_CODECS[name])


def mutate(target: str, content: bytes, chance: random.Random) -> bytes:
    return (mutate_archive if target in _ARCHIVES else mutate_bytes)(content, chance)


def seeds(target: str) -> Iterator[bytes]:
    """Inputs that are right, to begin with."""
    chance = random.Random(0)
    if target in ("archive", "store"):
        with tempfile.TemporaryDirectory() as folder:
            yield make_store(Path(folder)).read_bytes()
    elif target == "memory":
        for codec in ("patches", "jpeg", "webp", "coded-patches", "transform", "boxed"):
            yield _memory_file(codec)
    elif target == "decode":
        yield from whole_files(chance).values()
    elif target == "download":
        yield from (hostile_tar(chance), hostile_zip(chance))
    elif target == "request":
        yield b"daisy"
        yield b"host: localhost\nauthorization: Bearer x\ncookie: remnant=x"
    elif target == "receipt":
        yield b"{}"
    else:
        codec = make_codec(_CODECS[target], _SHAPE)
        for seed in range(4):
            yield codec.encode(Candidate(smooth(_SHAPE, seed)), generator(seed)).payload


def _memory_file(codec: str) -> bytes:
    config = MemoryConfig.model_validate({"codec": codec, "budget": "3images/class"})
    memory = Memory(config, _SHAPE, seed=0)
    memory.expect(2)
    for label in range(2):
        memory.add_class(label, f"class {label}", [Candidate(smooth(_SHAPE, label))])
    path = _folder() / "seed"
    memory.save(path)
    return path.read_bytes()
