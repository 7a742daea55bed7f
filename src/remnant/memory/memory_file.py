"""The memory file: classes as arrays and metadata, checked in full when they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from remnant.archives import Arrays, archive_digest
from remnant.errors import InputError
from remnant.images import Shape
from remnant.long_rows import Row, ScratchFile, cut
from remnant.memory.budget import MemoryConfig
from remnant.memory.codecs import build_codec
from remnant.memory.codecs.codec import Codec, Exemplar
from remnant.settings import Settings

KIND, VERSION = "memory", 1
PAYLOAD = "payload"  # the row that may be too long to be held in memory
_LENGTH_TYPES = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32)}


@dataclass(frozen=True)
class StoredClass:
    """The exemplars of one class."""

    name: str
    exemplars: tuple[Exemplar, ...]  # best first

    @property
    def side_bytes(self) -> int:
        """Bytes of side data beside each exemplar, equal within the class."""
        return len(self.exemplars[0].side) if self.exemplars else 0

    def filed(self, scratch: ScratchFile) -> StoredClass:
        """The same class with payloads that are not in memory, but in a file."""
        return StoredClass(self.name, tuple(one.filed(scratch) for one in self.exemplars))


class ArchiveHeader(Settings):
    """The metadata of a memory file; the exemplars are arrays beside it."""

    config: MemoryConfig
    image_shape: Shape
    seed: int
    num_seen_classes: int = Field(ge=0)
    names: tuple[str, ...]  # in label order
    codec: None = None  # in every file, as `MemoryConfig.when_full` is

    @model_validator(mode="before")
    @classmethod
    def _open_recoded(cls, values: Any) -> Any:
        """Accept a memory whose quality was lowered, as earlier versions could do.

        `codec` is then what it holds.
        """
        match values:
            case {"config": {"when_full": "recode", "codec": original} as config}:
                codec = values.get("codec") or original
                return values | {
                    "config": config | {"codec": codec, "when_full": "drop"},
                    "codec": None,
                }
        return values


def pack(
    header: ArchiveHeader, codec: Codec, classes: Mapping[int, StoredClass]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and metadata that hold `classes`; equal classes give equal arrays."""
    kept = [classes[label] for label in sorted(classes)]
    exemplars = [exemplar for stored in kept for exemplar in stored.exemplars]
    arrays = {
        "labels": np.array(sorted(classes), dtype=np.int64),
        "counts": np.array([len(stored.exemplars) for stored in kept], dtype=np.int64),
        PAYLOAD: Row([exemplar.content for exemplar in exemplars]).as_array(),
    }
    if codec.position_bytes:
        arrays["positions"] = _join([exemplar.positions for exemplar in exemplars])
    if codec.length_bytes:
        lengths = [exemplar.payload_size for exemplar in exemplars]
        arrays["lengths"] = np.array(lengths, dtype=_LENGTH_TYPES[codec.length_bytes])
    if codec.tables:
        arrays["tables"] = np.frombuffer(codec.tables, dtype=np.uint8)
    if any(exemplar.side for exemplar in exemplars):
        arrays["side"] = _join([exemplar.side for exemplar in exemplars])
        arrays["side_bytes"] = np.array([stored.side_bytes for stored in kept], dtype=np.int64)
    return arrays, header.model_dump(mode="json")


def itemise(
    header: ArchiveHeader, codec: Codec, classes: Mapping[int, StoredClass]
) -> dict[str, Any]:
    """Where the bytes of the file are, but for the few hundred of its container."""
    exemplars = [exemplar for stored in classes.values() for exemplar in stored.exemplars]
    names = len(json.dumps(header.names))
    metadata = len(json.dumps(header.model_dump(mode="json"), sort_keys=True))
    side = sum(len(exemplar.side) for exemplar in exemplars)
    class_table = 8 * len(classes) * (3 if side else 2)  # a label, a count, a size of side data
    return {
        "payload": sum(exemplar.payload_size for exemplar in exemplars),
        "positions": sum(len(exemplar.positions) for exemplar in exemplars),
        "lengths": codec.length_bytes * len(exemplars),
        **({"side": side} if side else {}),
        "labels": 0,  # exemplars are grouped by class
        "fixed": {
            "names": names,
            "header": metadata - names + class_table,
            "tables": len(codec.tables),  # once for all exemplars
        },
    }


def digest_of(arrays: Arrays, metadata: Any) -> str:
    """The digest that the file with these contents has."""
    return archive_digest({"format": KIND, "version": VERSION, "metadata": metadata}, arrays)


def unpack(
    arrays: Arrays, metadata: Any, source: str, image_shape: Shape | None = None
) -> tuple[ArchiveHeader, dict[int, StoredClass]]:
    """The inverse of `pack`, for contents that are not trusted.

    Args:
        image_shape: What the images must have; None: any.

    Raises:
        InputError: Something is missing, superfluous or impossible; `source` names it.
    """
    try:
        header = ArchiveHeader.parse(metadata)
        is_right = image_shape is None or header.image_shape == tuple(image_shape)
        _require(is_right, f"its images must be {image_shape}; they are {header.image_shape}")
        codec = build_codec(header.config.codec, header.image_shape)
        labels, counts = _read_table(arrays, header, codec)
        exemplars = _with_sides(arrays, counts, _cut(arrays, codec, sum(counts)))
        ends = list(accumulate(counts))
        classes = {
            label: StoredClass(name, tuple(exemplars[end - count : end]))
            for label, name, count, end in zip(labels, header.names, counts, ends, strict=True)
        }
        for stored in classes.values():
            _check_exemplars(codec, stored)
    except InputError as error:
        raise unusable(source, str(error)) from None
    return header, classes


def unusable(source: str, problem: str) -> InputError:
    """The error that `source` holds no memory; `problem` ends with a full stop."""
    return InputError(f"{source} does not hold a usable memory: {problem} Restore it from a copy.")


def check_name(name: str) -> None:
    """Refuse the name of a class that metadata, which are text, cannot hold.

    Raises:
        InputError: It is not valid text, as the name of a folder need not be.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(f"a class name must be valid text; got {name!r}. Rename it.") from None


def _read_table(arrays: Arrays, header: ArchiveHeader, codec: Codec) -> tuple[list[int], list[int]]:
    """Labels and counts as Python integers, which no hostile sum can overflow."""
    expected: dict[str, np.dtype[Any]] = {PAYLOAD: np.dtype(np.uint8)}
    expected["labels"] = expected["counts"] = np.dtype(np.int64)
    if codec.position_bytes:
        expected["positions"] = np.dtype(np.uint8)
    if codec.length_bytes:
        expected["lengths"] = _LENGTH_TYPES[codec.length_bytes]
    if codec.tables:
        expected["tables"] = np.dtype(np.uint8)
    if "side" in arrays:
        expected["side"], expected["side_bytes"] = np.dtype(np.uint8), np.dtype(np.int64)
    _require(set(arrays) == set(expected), f"it must have the arrays {', '.join(sorted(expected))}")
    for name, dtype in expected.items():
        is_right = arrays[name].dtype == dtype and arrays[name].ndim == 1
        _require(is_right, f"{name} must be one row of {dtype}")
    labels, counts = arrays["labels"].tolist(), arrays["counts"].tolist()
    _require(labels == sorted({*labels}) and min(labels, default=0) >= 0, "labels must ascend")
    _require(len(labels) == len(counts) == len(header.names), "classes and names must match")
    _require(len(labels) <= header.num_seen_classes, "it must hold no more classes than were seen")
    _require(min(counts, default=0) >= 0, "counts must not be negative")
    is_shared = not codec.tables or arrays["tables"].tobytes() == codec.tables
    _require(is_shared, "the shared tables must be those of its codec")
    return labels, counts


def _cut(arrays: Arrays, codec: Codec, num_exemplars: int) -> list[Exemplar]:
    """The exemplars in order; sizes are compared before anything is made from them."""
    if codec.payload_bytes is None:
        lengths = arrays["lengths"].tolist()
        _require(len(lengths) == num_exemplars, "every exemplar must have a length")
        total = sum(lengths)
    else:
        lengths, total = None, num_exemplars * codec.payload_bytes
    _require(arrays[PAYLOAD].size == total, f"the payload must have {total:,} bytes")
    step = codec.position_bytes
    positions = arrays["positions"].tobytes() if step else b""
    total = num_exemplars * step
    _require(len(positions) == total, f"the positions must have {total:,} bytes")
    sizes = [codec.payload_bytes or 0] * num_exemplars if lengths is None else lengths
    return [
        Exemplar(content, positions[index * step : (index + 1) * step])
        for index, content in enumerate(cut(arrays[PAYLOAD], sizes))
    ]


def _with_sides(arrays: Arrays, counts: list[int], exemplars: list[Exemplar]) -> list[Exemplar]:
    """The exemplars with their side data, if the memory has any."""
    if "side" not in arrays:
        return exemplars
    of_classes = arrays["side_bytes"].tolist()
    _require(len(of_classes) == len(counts), "every class must say how long its side data are")
    _require(min(of_classes, default=0) >= 0, "sizes of side data must not be negative")
    total = sum(size * count for size, count in zip(of_classes, counts, strict=True))
    _require(0 < total == arrays["side"].size, f"the side data must have {total:,} bytes")
    side = arrays["side"].tobytes()
    sizes = [size for size, count in zip(of_classes, counts, strict=True) for _ in range(count)]
    return [
        replace(exemplar, side=side[end - size : end])
        for exemplar, size, end in zip(exemplars, sizes, accumulate(sizes), strict=True)
    ]


def _check_exemplars(codec: Codec, stored: StoredClass) -> None:
    for rank, exemplar in enumerate(stored.exemplars):
        try:
            codec.check(exemplar)
        except InputError as error:
            raise InputError(f"exemplar {rank} of class {stored.name!r}: {error}") from None


def _join(parts: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


def _require(condition: bool, what_must_hold: str) -> None:
    if not condition:
        raise InputError(f"{what_must_hold}.")
