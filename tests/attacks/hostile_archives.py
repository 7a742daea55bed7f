"""G: archives that try to write elsewhere, to fill the disk, or to be no archives."""

from __future__ import annotations

import io
import random
import tarfile
import warnings
import zipfile
from pathlib import Path

from remnant.data import ArchiveSpec, Member
from remnant.data.archive_members import unpack
from tests.attacks.mutants import mutate_bytes
from tests.attacks.tally import Tally

FOLDER = "set"
MEMBERS = (Member(r"train\.bin", 1, 1000, 1000), Member(r"names\.txt", 0, 100))
_NAMES = (
    f"{FOLDER}/train.bin", f"{FOLDER}/names.txt", f"{FOLDER}/other", "../outside", "/tmp/outside",
    f"{FOLDER}/../../outside", f"{FOLDER}/./train.bin", f"{FOLDER}//train.bin", "set", "", ".",
    f"{FOLDER}\\..\\outside", f"{FOLDER}/train.bin/inner", "\0", "C:\\outside", "~/outside",
)  # fmt: skip
_KINDS = (
    tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE,
    tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE, tarfile.CONTTYPE,
)  # fmt: skip


def archive_spec(name: str, num_bytes: int) -> ArchiveSpec:
    return ArchiveSpec(f"http://x/{name}", "", num_bytes, FOLDER, MEMBERS, 100_000)


def hostile_tar(chance: random.Random) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=chance.choice(["w", "w:gz"])) as archive:
        for _ in range(chance.randrange(1, 5)):
            entry = tarfile.TarInfo(chance.choice(_NAMES))
            entry.type = chance.choice(_KINDS) if chance.random() < 0.5 else tarfile.REGTYPE
            entry.linkname = chance.choice(["../../outside", "/etc/passwd", f"{FOLDER}/train.bin"])
            entry.mode = chance.choice([0o644, 0o4777, 0])
            content = bytes(chance.choice([0, 1, 1000, 1001, 200_000]))
            entry.size = len(content) if entry.isreg() else 0
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def hostile_zip(chance: random.Random) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # of names that come twice
        for name in chance.sample(_NAMES, chance.randrange(1, 5)):
            entry = zipfile.ZipInfo(name)
            kind = chance.choice([0o100644, 0o120777, 0o020777, 0o040755])  # file, link, device
            entry.external_attr = kind << 16
            archive.writestr(entry, bytes(chance.choice([0, 1, 1000, 1001, 200_000])))
    return stream.getvalue()


def attack(folder: Path, seed: int, count: int) -> Tally:
    """Nothing is written outside, and what is written is what was expected, by name and size."""
    folder.mkdir(parents=True)
    chance, tally = random.Random(seed), Tally()
    for number in range(count):
        is_tar = chance.random() < 0.5
        content = hostile_tar(chance) if is_tar else hostile_zip(chance)
        if chance.random() < 0.3:
            content = mutate_bytes(content, chance)
        name = "a.tar.gz" if is_tar else "a.zip"
        spec = archive_spec(name, len(content))
        place = folder / str(number)
        place.mkdir()
        (place / name).write_bytes(content)
        with tally.trying(f"archive {number} of seed {seed}"):
            unpack(spec, place / name, place / "inside" / "deep")
        found = [path for path in place.rglob("*") if path.is_file() or path.is_symlink()]
        allowed = {place / name, *(place / "inside" / "deep" / one for one in _NAMES[:2])}
        strange = [path for path in found if path not in allowed or path.is_symlink()]
        large = [path for path in found if path != place / name and path.stat().st_size > 1000]
        if strange or large:
            tally.problems.append(f"archive {number} of seed {seed} left {strange or large}")
    return tally
