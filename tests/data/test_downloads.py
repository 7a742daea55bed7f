"""Claims about downloads, against a real server on loopback that can misbehave."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import shutil
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from remnant import files
from remnant.data import DATASETS, ArchiveSpec, Member, get_dataset
from remnant.data.downloads import install_archive
from remnant.errors import InputError

FOLDER = "cifar-100-binary"
MEMBERS = (Member(r"train\.bin", 1, 1000, 1000), Member(r"names\.txt", 0, 100))
GOOD = {f"{FOLDER}/train.bin": b"t" * 1000, f"{FOLDER}/names.txt": b"apple\n"}


class Server(http.server.ThreadingHTTPServer):
    content = b""
    cut_at: int | None = None  # closes the connection after so many bytes
    announces_length = True
    requests = 0

    def archive(self, *, md5: str | None = None) -> ArchiveSpec:
        url = f"http://127.0.0.1:{self.server_address[1]}/a.tar.gz"
        md5 = md5 or hashlib.md5(self.content).hexdigest()
        size = len(self.content)
        return ArchiveSpec(url, md5, size, FOLDER, MEMBERS, unpacked_bytes=100_000)


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests += 1
        self.send_response(200)
        if self.server.announces_length:
            self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content[: self.server.cut_at])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server(("127.0.0.1", 0), Handler) as running:
        running.content = tar_of(GOOD)
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def tar_of(contents: dict[str, bytes], *extra: tarfile.TarInfo) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for entry in extra:
            archive.addfile(entry)
    return stream.getvalue()


def zip_of(contents: dict[str, bytes], *extra: zipfile.ZipInfo) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
        for entry in extra:
            archive.writestr(entry, "/etc/passwd")
    return stream.getvalue()


def link(kind: bytes, name: str = f"{FOLDER}/train.bin") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.linkname = "../../outside"
    return entry


def everything_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def install(archive: ArchiveSpec, root: Path) -> Path:
    return install_archive("cifar100", archive, root)


def refusal(root: Path, archive: ArchiveSpec) -> str:
    """The message of the refusal, after which nothing new lies in the root or beside it."""
    before = everything_below(root.parent)
    with pytest.raises(InputError) as caught:
        install(archive, root)
    assert [name for name in everything_below(root.parent) if name != root.name] == [
        name for name in before if name != root.name
    ]
    return str(caught.value)


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_expected_members_arrive_whole_and_nothing_else_does(
    pack: Callable[..., bytes], server: Server, tmp_path: Path
) -> None:
    server.content = pack({**GOOD, f"{FOLDER}/readme.html": b"?", "other/train.bin": b"?"})
    counts: list[tuple[int, int | None]] = []
    folder = install_archive(
        "cifar100", server.archive(), tmp_path, progress=lambda *count: counts.append(count)
    )
    assert folder == tmp_path / FOLDER
    assert everything_below(tmp_path) == [FOLDER, f"{FOLDER}/names.txt", f"{FOLDER}/train.bin"]
    assert (folder / "train.bin").read_bytes() == b"t" * 1000
    assert counts[-1] == (len(server.content), len(server.content))


def test_second_call_downloads_nothing(server: Server, tmp_path: Path) -> None:
    for _ in range(2):
        install(server.archive(), tmp_path)
    assert server.requests == 1


def test_truncated_file_in_place_is_replaced_and_others_stay(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "train.bin").write_bytes(b"t" * 10)
    (tmp_path / FOLDER / "mine.txt").write_text("keep")
    install(server.archive(), tmp_path)
    assert (tmp_path / FOLDER / "train.bin").stat().st_size == 1000
    assert (tmp_path / FOLDER / "mine.txt").read_text() == "keep"


def test_interrupted_download_is_detected(server: Server, tmp_path: Path) -> None:
    server.cut_at = len(server.content) // 2
    message = refusal(tmp_path / "root", server.archive())
    assert f"ended after {server.cut_at:,} of {len(server.content):,} bytes" in message


def test_interruption_without_announced_length_is_detected(server: Server, tmp_path: Path) -> None:
    server.announces_length, server.cut_at = False, len(server.content) // 2
    assert "must have MD5" in refusal(tmp_path / "root", server.archive())


def test_altered_download_is_never_unpacked(server: Server, tmp_path: Path) -> None:
    message = refusal(tmp_path / "root", server.archive(md5="0" * 32))
    assert f"must have MD5 {'0' * 32}" in message


def test_endless_download_is_stopped(server: Server, tmp_path: Path) -> None:
    archive = server.archive()
    server.content, server.announces_length = b"x" * 5_000_000, False
    assert "more than twice" in refusal(tmp_path / "root", archive)


@pytest.mark.parametrize("name", ["../evil", f"{FOLDER}/../../evil", "/tmp/evil", "a\\..\\evil"])
@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_entries_that_leave_the_folder_are_refused(
    pack: Callable[..., bytes], name: str, server: Server, tmp_path: Path
) -> None:
    server.content = pack({**GOOD, name: b"evil"})
    assert "outside its folder" in refusal(tmp_path / "root", server.archive())


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(
    kind: bytes, server: Server, tmp_path: Path
) -> None:
    server.content = tar_of({}, link(kind))
    assert "link or device" in refusal(tmp_path / "root", server.archive())


def test_links_in_a_zip_are_refused(server: Server, tmp_path: Path) -> None:
    entry = zipfile.ZipInfo(f"{FOLDER}/train.bin")
    entry.external_attr = 0o120777 << 16
    server.content = zip_of({}, entry)
    assert "link or device" in refusal(tmp_path / "root", server.archive())


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_member_larger_than_expected_is_refused(
    pack: Callable[..., bytes], server: Server, tmp_path: Path
) -> None:
    server.content = pack({f"{FOLDER}/train.bin": b"\0" * 50_000})
    assert "exceeds 1,000 bytes" in refusal(tmp_path / "root", server.archive())


def test_bomb_in_a_file_that_is_not_needed_is_refused(server: Server, tmp_path: Path) -> None:
    server.content = tar_of({f"{FOLDER}/bomb": b"\0" * 10_000_000, **GOOD})
    assert len(server.content) < 50_000
    assert "unpacks to more than 100,000 bytes" in refusal(tmp_path / "root", server.archive())


def test_incomplete_and_doubled_archives_are_refused(server: Server, tmp_path: Path) -> None:
    server.content = tar_of({f"{FOLDER}/names.txt": b"apple"})
    assert "must hold 1 files" in refusal(tmp_path / "root", server.archive())
    server.content = tar_of({f"{FOLDER}/train.bin": b"short"})
    assert "must have 1,000 bytes or more" in refusal(tmp_path / "root", server.archive())
    twice = tarfile.TarInfo(f"{FOLDER}/train.bin")
    server.content = tar_of(GOOD, twice)
    assert "twice" in refusal(tmp_path / "root", server.archive())


@pytest.mark.parametrize("content", [b"", b"no archive", tar_of(GOOD)[:-30]])
def test_what_is_no_archive_is_refused(content: bytes, server: Server, tmp_path: Path) -> None:
    server.content = content
    assert "not a readable archive" in refusal(tmp_path / "root", server.archive())


def test_without_network_the_error_says_what_to_put_where(server: Server, tmp_path: Path) -> None:
    archive = server.archive()
    server.shutdown()
    server.server_close()
    message = refusal(tmp_path / "root", archive)
    for part in (
        archive.url,
        archive.md5,
        str(tmp_path / "root" / "a.tar.gz"),
        "data get cifar100",
    ):
        assert part in message


def test_archive_put_there_by_hand_is_verified_and_used(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(server.content)
    install(server.archive(), tmp_path)
    assert server.requests == 0
    assert (tmp_path / FOLDER / "train.bin").is_file()
    assert (tmp_path / "a.tar.gz").is_file()
    shutil.rmtree(tmp_path / FOLDER)
    (tmp_path / "a.tar.gz").write_bytes(server.content[:-1])
    with pytest.raises(InputError, match="must have MD5"):
        install(server.archive(), tmp_path)


def test_full_disk_is_reported_and_leaves_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: BinaryIO | int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    message = refusal(tmp_path / "root", server.archive())
    assert "cannot be written" in message
    assert "No space left on device" in message


def test_a_data_set_is_synced_once_before_it_is_put_in_place(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_place: list[bool] = []
    monkeypatch.setattr(files.os, "sync", lambda: in_place.append((tmp_path / FOLDER).exists()))
    install(server.archive(), tmp_path)
    assert in_place == [False]
    assert (tmp_path / FOLDER / "train.bin").is_file()


def test_leftovers_of_a_killed_download_go_after_a_day(server: Server, tmp_path: Path) -> None:
    old, new = tmp_path / ".cifar100.old.partial", tmp_path / ".cifar100.new.partial"
    old.mkdir()
    new.mkdir()
    yesterday = time.time() - 100_000
    os.utime(old, (yesterday, yesterday))
    install(server.archive(), tmp_path)
    assert not old.exists()
    assert new.exists()


def test_datasets_without_a_download_say_so(tmp_path: Path) -> None:
    assert get_dataset("digits", str(tmp_path)) == tmp_path
    with pytest.raises(InputError, match=r"train/<wnid>"):
        get_dataset("imagenet-full", str(tmp_path))
    with pytest.raises(InputError, match="your own images"):
        get_dataset("folder", str(tmp_path))
    with pytest.raises(InputError, match=r"Did you mean cifar10\?"):
        get_dataset("cifar1", str(tmp_path))


def test_published_archives_name_their_members() -> None:
    tiny, cifar100 = DATASETS["tiny-imagenet"].archive, DATASETS["cifar100"].archive
    assert tiny is not None
    assert cifar100 is not None
    good = "tiny-imagenet-200/train/n01443537/images/n01443537_0.JPEG"
    assert tiny.matching(good) is not None
    assert tiny.matching("tiny-imagenet-200/test/images/test_0.JPEG") is None
    assert tiny.matching("tiny-imagenet-200/train/n01443537/n01443537_boxes.txt") is None
    sizes = [member.most_bytes for member in cifar100.members]
    assert sizes[:2] == [153_700_000, 30_740_000]
