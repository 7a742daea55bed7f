"""Claims about the CIFAR loaders, on small releases and, where it is at hand, the real one."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from remnant.data import DataConfig, data_root, load_dataset
from remnant.data.cifar import (
    CIFAR10_RELEASE,
    CIFAR100_RELEASE,
    CifarFile,
    CifarRelease,
    check_cifar,
    open_cifar,
)
from remnant.errors import InputError
from remnant.images import ArrayImages


def records(num_images: int, label_bytes: int) -> np.ndarray:
    """Image k is of class k % 3; red is k, green 100 + k, blue 200, the first pixel is 7."""
    rows = np.zeros((num_images, label_bytes + 3072), np.uint8)
    for index, row in enumerate(rows):
        row[:label_bytes] = 9  # a coarse label, to be ignored
        row[label_bytes - 1] = index % 3
        planes = row[label_bytes:].reshape(3, 32, 32)
        planes[0], planes[1], planes[2] = index, 100 + index, 200
        planes[:, 0, 1] = 7
    return rows


def write_release(release: CifarRelease, root: Path) -> CifarRelease:
    """A miniature of a release: six training images per file, and a test file of three."""
    (root / release.folder).mkdir(parents=True)

    def write(file: CifarFile, num_images: int) -> CifarFile:
        content = records(num_images, release.label_bytes).tobytes()
        (root / release.folder / file.name).write_bytes(content)
        sha1 = hashlib.sha1(content).hexdigest() if file.sha1 else None
        return CifarFile(file.name, num_images, sha1)

    return replace(
        release,
        num_classes=3,
        train=tuple(write(file, 6) for file in release.train),
        test=tuple(write(file, 3) for file in release.test),
    )


@pytest.mark.parametrize(
    "official", [CIFAR10_RELEASE, CIFAR100_RELEASE], ids=["cifar10", "cifar100"]
)
def test_records_become_images_labels_and_ids(official: CifarRelease, tmp_path: Path) -> None:
    release = write_release(official, tmp_path)
    train = open_cifar(release, tmp_path).train()
    num_files = len(release.train)
    assert train.labels.tolist() == [0, 1, 2, 0, 1, 2] * num_files
    assert train.ids.tolist() == list(range(6 * num_files))
    image = train.images.read(torch.tensor([4]))[0]
    assert image[0, 1].tolist() == [7, 7, 7]
    assert image[5, 9].tolist() == [4, 104, 200]


def test_names_are_read_where_they_exist_and_numbered_where_not(tmp_path: Path) -> None:
    release = write_release(CIFAR100_RELEASE, tmp_path)
    assert open_cifar(release, tmp_path).class_names == ("class 0", "class 1", "class 2")
    names = tmp_path / release.folder / release.names_file
    names.write_text("apple\nbaby\nbear\n\n")
    assert open_cifar(release, tmp_path).class_names == ("apple", "baby", "bear")


def test_truncated_file_is_refused_and_named(tmp_path: Path) -> None:
    release = write_release(CIFAR10_RELEASE, tmp_path)
    path = tmp_path / release.folder / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"data_batch_3\.bin must have .*remnant data get"):
        open_cifar(release, tmp_path).train()


def test_one_altered_byte_is_refused_by_the_checksum(tmp_path: Path) -> None:
    release = write_release(CIFAR100_RELEASE, tmp_path)
    path = tmp_path / release.folder / "train.bin"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"train\.bin must have SHA-1"):
        open_cifar(release, tmp_path).train()


def test_label_out_of_range_is_refused_where_no_checksum_is_known(tmp_path: Path) -> None:
    release = write_release(CIFAR10_RELEASE, tmp_path)
    path = tmp_path / release.folder / "data_batch_1.bin"
    path.write_bytes(b"\x09" + path.read_bytes()[1:])
    with pytest.raises(InputError, match="labels below 3; it has 9"):
        open_cifar(release, tmp_path).train()


def test_training_images_are_read_without_the_test_file(tmp_path: Path) -> None:
    release = write_release(CIFAR100_RELEASE, tmp_path)
    (tmp_path / release.folder / "test.bin").unlink()
    source = open_cifar(release, tmp_path)
    assert len(source.train()) == 6
    with pytest.raises(InputError, match=r"test\.bin, which does not exist"):
        source.test()


def test_check_lists_every_file_and_notices_a_missing_one(tmp_path: Path) -> None:
    release = write_release(CIFAR100_RELEASE, tmp_path)
    train, test = check_cifar(release, tmp_path)
    assert train == f"train.bin: SHA-1 {release.train[0].sha1}, 6 images"
    assert test.startswith("test.bin: SHA-1")
    (tmp_path / release.folder / "test.bin").unlink()
    with pytest.raises(InputError, match="remnant data get cifar100"):
        check_cifar(release, tmp_path)


def test_missing_data_says_where_and_how_to_get_it(tmp_path: Path) -> None:
    expected = tmp_path / "cifar-100-binary" / "train.bin"
    with pytest.raises(InputError) as caught:
        load_dataset(DataConfig(dataset="cifar100", root=str(tmp_path)))
    assert str(expected) in str(caught.value)
    assert "remnant data get cifar100" in str(caught.value)


@pytest.mark.cifar100
def test_real_release_has_its_known_shape_and_statistics() -> None:
    folder = data_root(None) / CIFAR100_RELEASE.folder
    if not (folder / "train.bin").is_file():
        pytest.skip("CIFAR-100 is not under the data root; run `remnant data get cifar100`")
    data = load_dataset(DataConfig(dataset="cifar100"))
    assert data.train.labels.bincount().tolist() == [500] * 100
    assert data.test.labels.bincount().tolist() == [100] * 100
    assert isinstance(data.train.images, ArrayImages)
    pixels = data.train.images.array.view(-1, 3).float() / 255
    assert pixels.mean(0).tolist() == pytest.approx(list(data.mean), abs=5e-4)
    assert pixels.std(0).tolist() == pytest.approx(list(data.std), abs=5e-4)
