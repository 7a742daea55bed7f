"""Digests of images, by which an interrupted run or update knows that its data are the same."""

from __future__ import annotations

import hashlib
import os

from remnant.data.file_images import FileImages, ResizedImages
from remnant.images import ArrayImages, Images, ImageSet


def fingerprint(images: Images) -> str:
    """SHA-256 of the pixels; for files not held in memory of name, size and modification time.

    Chosen: names are relative to the folder of a data set, which may be moved. Images of a plug-in
    that are neither count by their number alone.
    """
    digest = hashlib.sha256()
    if isinstance(images, ResizedImages):
        return fingerprint(images.base)
    if isinstance(images, FileImages):
        for row in images.rows.tolist():
            facts = images.paths[row].stat()
            digest.update(os.fsencode(images.paths.name(row)))
            digest.update(f"\x1f{facts.st_size}\x1f{facts.st_mtime_ns}\x1e".encode())
    elif isinstance(images, ArrayImages):
        pixels = images.array.contiguous().numpy()
        digest.update(pixels.data if pixels.size else b"")
    else:
        digest.update(str(len(images)).encode())
    return digest.hexdigest()


def fingerprint_sets(*sets: ImageSet) -> str:
    """SHA-256 of images, labels and order of several sets."""
    digest = hashlib.sha256()
    for one in sets:
        digest.update(fingerprint(one.images).encode())
        digest.update(one.labels.contiguous().numpy().tobytes())
    return digest.hexdigest()
