from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from remnant import files
from remnant.archives import read_archive, write_archive
from remnant.errors import InputError
from remnant.files import (
    UnsyncedError,
    claim_folder,
    new_folder,
    only_writer,
    remove_temporary_files,
    replacing,
    write_bytes,
    write_json,
    write_text,
)

ARRAYS = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "b": np.array([True, False])}
TYPES = ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
TYPES += ["float16", "float32", "float64"]


# ------------------------------------------------------------------------------------ one writer


def test_a_file_takes_the_place_of_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "note.txt"
    write_text(path, "old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [entry.name for entry in path.parent.iterdir()] == ["note.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "note.txt"
    write_text(path, "old")

    def write_half() -> None:
        with replacing(path) as file:
            file.write(b"half of the n")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


class Recorder:
    """The calls that decide what survives a power cut, in order; one of them may fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: str = "") -> None:
        self.calls: list[str] = []
        for name in ("fsync", "replace"):
            monkeypatch.setattr(files.os, name, self._wrap(name, getattr(os, name), failing))

    def _wrap(self, name: str, call: Any, failing: str) -> Any:
        def recorded(*arguments: Any) -> Any:
            what = name
            if name == "fsync":
                is_folder = os.path.isdir(f"/proc/self/fd/{arguments[0]}")
                size = os.fstat(arguments[0]).st_size
                what = "sync folder" if is_folder else f"sync {size} bytes"
            self.calls.append(what)
            if what.startswith(failing) and failing:
                raise OSError(5, "Input/output error")
            return call(*arguments)

        return recorded


def test_bytes_are_synced_before_the_rename_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(monkeypatch)
    write_bytes(tmp_path / "note", b"12345")
    assert recorder.calls == ["sync 5 bytes", "replace", "sync folder"]


def test_a_new_folder_is_synced_into_the_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(monkeypatch)
    write_bytes(tmp_path / "a" / "b" / "note", b"12345")
    assert recorder.calls == ["sync folder"] * 2 + ["sync 5 bytes", "replace", "sync folder"]


@pytest.mark.parametrize("failing", ["sync 5 bytes", "replace"])
def test_a_failing_call_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "note"
    write_bytes(path, b"old")
    recorder = Recorder(monkeypatch, failing)
    with pytest.raises(OSError, match="Input/output"):
        write_bytes(path, b"12345")
    assert recorder.calls[-1] == failing
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_synced_is_told_with_the_new_file_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "note"
    write_bytes(path, b"old")
    Recorder(monkeypatch, "sync folder")
    with pytest.raises(UnsyncedError, match="the new note is in place, but may not survive"):
        write_bytes(path, b"12345")
    assert path.read_bytes() == b"12345"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_a_file_system_without_modes_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(files.os, "chmod", refuse)
    write_bytes(tmp_path / "note", b"new")
    assert (tmp_path / "note").read_bytes() == b"new"


def test_a_mode_that_fails_for_another_reason_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files.os, "chmod", fail)
    with pytest.raises(OSError, match="Input/output"):
        write_bytes(tmp_path / "note", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_cannot_sync_folders_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def refuse(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr(files.os, "fsync", refuse)
    write_bytes(tmp_path / "new" / "note", b"new")
    assert (tmp_path / "new" / "note").read_bytes() == b"new"


def test_a_full_disk_leaves_the_old_file_and_no_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "note"
    write_bytes(path, b"old")
    script = """
        import resource, signal, sys
        from pathlib import Path
        from remnant.files import write_bytes
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            write_bytes(Path(sys.argv[1]), bytes(100_000))
        except OSError as error:
            print(type(error).__name__, error.errno)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout.split() == ["OSError", "27"]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    keep = [tmp_path / "note", tmp_path / "a" / "x.tmp", tmp_path / ".hidden", tmp_path / ".x.tmp"]
    gone = [tmp_path / ".note.ab12.remnant.tmp", tmp_path / "a" / ".x.cd34.remnant.tmp"]
    for path in keep + gone:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    remove_temporary_files(tmp_path)
    assert all(path.exists() for path in keep)
    assert not any(path.exists() for path in gone)


def test_json_is_sorted_and_holds_no_nan(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": 1, "a": [2]})
    assert (tmp_path / "a.json").read_text() == '{\n  "a": [\n    2\n  ],\n  "b": 1\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "b.json", float("nan"))
    assert not (tmp_path / "b.json").exists()


def test_a_file_keeps_what_its_owner_allowed(tmp_path: Path) -> None:
    path = tmp_path / "private"
    path.write_bytes(b"old")
    path.chmod(0o600)
    write_bytes(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_writer_is_kept_out_until_the_first_is_done(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.touch()
    with (
        only_writer(path),
        pytest.raises(InputError, match="written by another process"),
        only_writer(path),
    ):
        pass
    with only_writer(path):
        pass


def test_a_claim_on_a_file_that_was_replaced_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    path.write_bytes(b"")
    lock = fcntl.flock

    def be_late(file: BinaryIO, how: int) -> None:
        path.unlink()  # by the one who had the claim until now
        path.write_bytes(b"")
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", be_late)
    with pytest.raises(InputError, match="another process"), only_writer(path):
        pytest.fail("two could be inside")


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_locks_is_written_to_with_a_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    number: int,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "no")

    path = tmp_path / "lock"
    path.touch()
    monkeypatch.setattr(fcntl, "flock", refuse)
    with only_writer(path):
        pass
    assert "has no locks: make sure that no other process writes there" in caplog.text


def test_a_lock_that_fails_for_another_reason_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "lock"
    path.touch()
    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(OSError, match="Input/output"), only_writer(path):
        pytest.fail("nobody is kept out")


@pytest.mark.parametrize("has_proc", [True, False])
def test_a_new_file_has_the_mode_that_the_process_allows_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_proc: bool
) -> None:
    if not has_proc:
        monkeypatch.setattr(files, "_STATUS", str(tmp_path / "nowhere"))
    before = os.umask(0o077)
    try:
        write_bytes(tmp_path / "note", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "note").stat().st_mode) == 0o600


# --------------------------------------------------------------------------------------- archives


@given(
    st.dictionaries(
        st.text("abc/", min_size=1, max_size=4),
        hnp.arrays(
            st.sampled_from([np.dtype(name) for name in TYPES]),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        ),
        max_size=4,
    ),
    st.dictionaries(st.text(max_size=3), st.integers(0, 9) | st.text(max_size=3), max_size=3),
)
def test_an_archive_gives_back_what_it_was_given(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray], metadata: Any
) -> None:
    path = tmp_path_factory.mktemp("archive") / "a"
    digest = write_archive(path, "test", 1, arrays, metadata)
    found, found_metadata = read_archive(path, "test", 1)
    assert found_metadata == metadata
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()
    first = path.read_bytes()
    with safetensors.safe_open(path, framework="numpy") as file:
        assert first == safetensors.numpy.save(arrays, metadata=file.metadata())
    assert write_archive(path, "test", 1, dict(reversed(arrays.items())), metadata) == digest
    assert path.read_bytes() == first


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the largest memory")
def test_an_archive_is_written_without_a_copy_of_its_arrays(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
import numpy as np
from remnant.archives import write_archive
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
arrays = {"a": np.ones(100_000_000, dtype=np.uint8)}
write_archive(Path(sys.argv[1]), "test", 1, {"a": np.ones(1000)}, {})
before = peak()
write_archive(Path(sys.argv[1]), "test", 1, arrays, {})
print(peak() - before)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "a")]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert grown < 20e6


def test_an_archive_damaged_at_any_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_archive(path, "test", 1, ARRAYS, {"answer": 42})
    content = path.read_bytes()
    for place in range(len(content)):
        broken = bytearray(content)
        broken[place] ^= 1 << place % 8
        path.write_bytes(broken)
        with pytest.raises(InputError):
            read_archive(path, "test", 1)


def test_an_archive_cut_at_any_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_archive(path, "test", 1, ARRAYS, {"answer": 42})
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match=r"damaged|not a readable"):
            read_archive(path, "test", 1)


def test_a_file_of_another_kind_or_version_says_which(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_archive(path, "memory", 3, ARRAYS, None)
    with pytest.raises(InputError, match="must be a remnant checkpoint file; it is a memory file"):
        read_archive(path, "checkpoint", 3)
    with pytest.raises(InputError, match="memory format version 3; this remnant reads version 2"):
        read_archive(path, "memory", 2)
    with pytest.raises(InputError, match="does not exist"):
        read_archive(tmp_path / "b", "memory", 3)
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)\. Check its permissi"):
        read_archive(tmp_path, "memory", 3)


# ------------------------------------------------------------------------------------- new folders


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def write_into(folder: Path, name: str, *, inner: str | None = None, advice: str = "") -> None:
    """Begin to write into a new folder, and stop."""
    with new_folder(folder, advice, [name]):
        (folder / name).touch()
        (folder / f".{name}.ab12cd34.remnant.tmp").touch()
        if inner is not None:
            (folder / inner).mkdir()
        raise KeyboardInterrupt


STRANGERS = ("thesis.tex", ".draft.tmp", ".config.json.ab12cd34.tmp", ".remnant.tmp.txt")


@pytest.mark.parametrize("name", STRANGERS)
def test_a_folder_with_a_strangers_file_is_refused_and_left_as_it_is(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "inner").mkdir()
    for path in (tmp_path / name, tmp_path / "inner" / ".notes.tmp"):
        path.write_text("precious")
    with (
        pytest.raises(InputError, match=r"is not empty.*Go away\."),
        new_folder(tmp_path, "Go away.", []),
    ):
        pass
    assert names_in(tmp_path) == {name, "inner"}
    assert (tmp_path / name).read_text() == "precious"
    assert names_in(tmp_path / "inner") == {".notes.tmp"}


@pytest.mark.parametrize("is_there", [True, False])
def test_what_fails_to_start_leaves_the_folder_as_it_was(is_there: bool, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    if is_there:
        folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        write_into(folder, "config.json")
    assert folder.exists() == is_there
    assert not is_there or names_in(folder) == set()


def test_what_fails_after_it_began_is_kept(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_into(tmp_path / "sweep", "sweep.json", inner="seed-1")
    assert names_in(tmp_path / "sweep") >= {"seed-1", "sweep.json"}


def test_a_strangers_file_that_comes_while_a_start_fails_is_kept(tmp_path: Path) -> None:
    def start() -> None:
        with new_folder(tmp_path / "run", "", ["config.json"]):
            (tmp_path / "run" / "config.json").touch()
            (tmp_path / "run" / "notes.txt").write_text("precious")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start()
    assert names_in(tmp_path / "run") == {"notes.txt"}


def test_leftovers_of_our_own_do_not_make_a_folder_full(tmp_path: Path) -> None:
    (tmp_path / ".config.json.ab12cd34.remnant.tmp").touch()
    with new_folder(tmp_path, "", []):
        assert names_in(tmp_path) == set()
    (tmp_path / "lock").touch()
    claim_folder(tmp_path, "", is_ours=lambda name: name == "lock")
    with pytest.raises(InputError, match="it holds lock"):
        claim_folder(tmp_path, "")


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="it is a file"):
        write_into(tmp_path / "file", "config.json")
