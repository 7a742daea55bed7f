from __future__ import annotations

import copy
import gc
import io
import os
from pathlib import Path

import numpy as np
import pytest

from remnant import long_rows
from remnant.archives import archive_digest
from remnant.long_rows import Filed, Row, ScratchFile, cut, parts_of


def test_a_scratch_file_has_no_name_and_goes_with_its_last_reader(tmp_path: Path) -> None:
    file = ScratchFile(tmp_path)
    filed = file.append(b"abc")
    assert list(tmp_path.iterdir()) == []
    handle = file.handle
    del file
    gc.collect()
    assert bytes(filed) == b"abc"
    del filed
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)


def test_a_folder_that_is_not_there_is_done_without(tmp_path: Path) -> None:
    assert bytes(ScratchFile(tmp_path / "gone").append(b"x")) == b"x"
    assert bytes(ScratchFile(None).append(b"x")) == b"x"
    assert not (tmp_path / "gone").exists()


def test_what_an_open_file_holds_is_appended_as_far_as_it_goes() -> None:
    file = ScratchFile(None)
    file.append(b"before")
    source = io.BytesIO(b"abcdef")
    assert bytes(file.append_from(source, 4)) == b"abcd"
    assert bytes(file.append_from(source, 4)) == b"ef"
    assert bytes(file.append(b"after")) == b"after"


def test_a_copy_of_filed_bytes_needs_no_file() -> None:
    filed = ScratchFile(None).append(b"abc")
    assert copy.deepcopy(filed) == b"abc"
    assert copy.deepcopy(filed.file).handle != filed.file.handle


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_a_row_is_an_array_of_bytes_in_pieces(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_rows, "_CHUNK_BYTES", chunk)
    row = Row([b"ab", ScratchFile(None).append(b"cdefg"), b"", b"h"])
    array = np.frombuffer(b"abcdefgh", dtype=np.uint8)
    assert (row.shape, row.size, row.nbytes, row.ndim) == (array.shape, 8, 8, 1)
    assert row.tobytes() == b"".join(row.chunks()) == array.tobytes()
    assert np.array_equal(np.concatenate([*parts_of(row)]), array)
    assert archive_digest({}, {"x": row.as_array()}) == archive_digest({}, {"x": array})


def test_pieces_of_a_row_stay_where_they_are() -> None:
    filed = ScratchFile(None).append(b"abcdef")
    first, second = cut(Row([filed]), [2, 4])
    assert isinstance(first, Filed)
    assert (bytes(first), bytes(second)) == (b"ab", b"cdef")
    pieces = [b"ab", filed.part(2, 4)]
    assert [*map(id, cut(Row(pieces), [2, 4]))] == [*map(id, pieces)]
    assert cut(Row(pieces), [1, 5]) == cut(np.frombuffer(b"abcdef", np.uint8), [1, 5])
