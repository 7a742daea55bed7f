"""The one archive format: arrays and metadata in a safetensors file, with a checksum.

The file's single metadata key holds sorted JSON with a format name, a version, free metadata and a
SHA-256 of everything else. Equal content gives equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors

from remnant import long_rows
from remnant.errors import InputError
from remnant.files import replacing
from remnant.long_rows import Row, ScratchFile, parts_of

Arrays = Mapping[str, np.ndarray]  # among them `Row`s, which are used as arrays of bytes are
_KEY = "remnant"  # the only metadata key: safetensors writes several in no fixed order
# As safetensors sorts the arrays of a file, so that each begins at a multiple of its item size.
_TYPES = {
    "uint64": "U64", "int64": "I64", "float64": "F64", "float32": "F32", "uint32": "U32",
    "int32": "I32", "float16": "F16", "uint16": "U16", "int16": "I16", "int8": "I8", "uint8": "U8",
    "bool": "BOOL",
}  # fmt: skip


def write_archive(path: Path, kind: str, version: int, arrays: Arrays, metadata: Any) -> str:
    """Write an archive and return its digest."""
    header: dict[str, Any] = {"format": kind, "version": version, "metadata": metadata}
    digest = header["digest"] = archive_digest(header, arrays)
    text = json.dumps(header, sort_keys=True, allow_nan=False)
    with replacing(path) as file:
        for piece in _pieces(arrays, text):
            file.write(piece)
    return digest


def _pieces(arrays: Arrays, text: str) -> Iterator[bytes | memoryview]:
    """The bytes that `safetensors.numpy.save` gives, without a copy of all arrays at once."""
    ranks = {name: rank for rank, name in enumerate(_TYPES)}
    names = sorted(arrays, key=lambda name: (ranks[arrays[name].dtype.name], name))
    header: dict[str, Any] = {"__metadata__": {_KEY: text}}
    end = 0
    for name in names:
        begin, end = end, end + arrays[name].nbytes
        header[name] = {
            "dtype": _TYPES[arrays[name].dtype.name],
            "shape": arrays[name].shape,
            "data_offsets": (begin, end),
        }
    spelt = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    spelt += b" " * (-len(spelt) % 8)
    yield len(spelt).to_bytes(8, "little")
    yield spelt
    for name in names:
        for array in parts_of(arrays[name]):
            yield array.astype(array.dtype.newbyteorder("<"), copy=False).data.cast("B")


def read_archive(
    path: Path, kind: str, version: int, filed: str | None = None
) -> tuple[dict[str, np.ndarray], Any]:
    """Arrays and metadata of an archive.

    Args:
        filed: The name of a row of bytes; where it is too long to be held in memory, it comes as a
            `Row` in a scratch file.

    Raises:
        InputError: The file is missing, unreadable, damaged, of another kind, or of another
            version.
    """
    try:
        with path.open("rb") as plain:  # tells why a file cannot be opened; safetensors does not
            status = os.fstat(plain.fileno())
        with safetensors.safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {})[_KEY]
            header = json.loads(text)
            if json.dumps(header, sort_keys=True, allow_nan=False) != text:
                raise ValueError("the header is spelt in another way than remnant spells it")
            names = set(file.keys())
            is_long = filed in names and _is_long(file.get_slice(filed))
            read = names - {filed} if is_long else names
            arrays = {name: file.get_tensor(name) for name in read}
        found, found_version = header["format"], header["version"]
        claimed, metadata = header.pop("digest"), header["metadata"]
    except FileNotFoundError:
        raise InputError(f"{path} does not exist. Check the path.") from None
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or error}). Check its permissions and the "
            "disk."
        ) from None
    except (
        safetensors.SafetensorError,
        RecursionError,
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
    ) as error:
        raise InputError(
            f"{path} is not a readable remnant file ({type(error).__name__}). It is damaged or was "
            "written by another program; restore it from a copy."
        ) from None
    if found != kind:
        raise InputError(
            f"{path} must be a remnant {kind} file; it is a {found} file. Name a {kind} file."
        )
    if found_version != version:
        raise InputError(
            f"{path} has {kind} format version {found_version}; this remnant reads version "
            f"{version}. Use the remnant version that wrote it."
        )
    if filed is not None and is_long:
        with path.open("rb") as plain:
            if not os.path.samestat(status, os.fstat(plain.fileno())):
                return read_archive(path, kind, version, filed)  # it has just been replaced
            arrays[filed] = _file_row(plain, filed, path.parent).as_array()
    if archive_digest(header, arrays) != claimed:
        raise InputError(f"{path} is damaged: its checksum does not match. Restore it from a copy.")
    return arrays, metadata


def _is_long(row: Any) -> bool:
    """Whether an array is a row of more bytes than are held in memory."""
    shape = row.get_shape()
    return row.get_dtype() == "U8" and len(shape) == 1 and shape[0] > long_rows.HELD_BYTES


def _file_row(file: BinaryIO, name: str, folder: Path) -> Row:
    """A row of an open archive in a scratch file.

    It is not read through safetensors, which maps the archive: all of it would become resident.
    """
    length = int.from_bytes(file.read(8), "little")
    begin, end = json.loads(file.read(length))[name]["data_offsets"]
    file.seek(8 + length + begin)
    return Row([ScratchFile(folder).append_from(file, end - begin)])


def archive_digest(header: Mapping[str, Any], arrays: Arrays) -> str:
    """SHA-256 over the header and every array's name, type, shape and bytes, in name order."""
    digest = hashlib.sha256(json.dumps(dict(header), sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\x1f{name}\x1f{array.dtype.str}\x1f{array.shape}\x1f".encode())
        for part in parts_of(array):
            digest.update(part.data)
    return digest.hexdigest()
