"""Claims about the layouts of ImageNet and Tiny-ImageNet, on generated miniatures."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from remnant.data import DataConfig, check_dataset, load_dataset
from remnant.errors import InputError
from remnant.images import ArrayImages
from tests.support.picture_files import flat, write_classes

WNIDS = ("n01440764", *(f"n015{index:05}" for index in range(98)), "n01855672", "n02000000")


def write_imagenet(root: Path, wnids: tuple[str, ...] = WNIDS) -> None:
    for split in ("train", "val"):
        write_classes(root / "imagenet" / split, dict.fromkeys(wnids, 1))


def write_tiny(root: Path, num_classes: int = 3) -> Path:
    """Classes in reverse order in `wnids.txt`; test image k is grey k and of class k."""
    folder = root / "tiny-imagenet-200"
    wnids = [f"n0000000{index}" for index in range(num_classes)]
    write_classes(folder / "train", dict.fromkeys(wnids, 4), inner="images")
    (folder / "val" / "images").mkdir(parents=True)
    rows = []
    for index, wnid in reversed(list(enumerate(wnids))):
        flat(index, 64).save(folder / "val" / "images" / f"val_{index}.JPEG")
        rows.append(f"val_{index}.JPEG\t{wnid}\t0\t32\t44\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(rows))
    (folder / "wnids.txt").write_text("\n".join(reversed(wnids)))
    return folder


def test_subset_is_the_first_hundred_classes(tmp_path: Path) -> None:
    write_imagenet(tmp_path)
    data = load_dataset(DataConfig(dataset="imagenet-subset", root=str(tmp_path)))
    assert data.class_names == WNIDS[:100]
    assert (len(data.train), len(data.test)) == (100, 100)
    assert data.train.images.shape == (224, 224, 3)


def test_another_hundred_classes_are_not_the_subset(tmp_path: Path) -> None:
    write_imagenet(tmp_path, WNIDS[1:])
    with pytest.raises(InputError, match="must run from n01440764 to n01855672"):
        load_dataset(DataConfig(dataset="imagenet-subset", root=str(tmp_path)))


def test_missing_classes_are_counted(tmp_path: Path) -> None:
    write_imagenet(tmp_path)
    with pytest.raises(InputError, match=r"must hold 1,000 class folders .* it holds 101"):
        load_dataset(DataConfig(dataset="imagenet-full", root=str(tmp_path)))


def test_missing_imagenet_says_where_it_belongs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="imagenet-full is expected at") as caught:
        load_dataset(DataConfig(dataset="imagenet-full", root=str(tmp_path)))
    assert "data get" not in str(caught.value)


def test_tiny_imagenet_labels_follow_the_annotations(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    data = load_dataset(DataConfig(dataset="tiny-imagenet", root=str(tmp_path)))
    assert data.train.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert data.test.labels.tolist() == [2, 1, 0]
    greys = data.test.images.read(torch.arange(3))[:, 0, 0, 0]
    assert greys.tolist() == [2, 1, 0]


def test_tiny_imagenet_is_held_in_memory_at_the_size_asked_for(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    config = DataConfig(dataset="tiny-imagenet", root=str(tmp_path))
    assert load_dataset(config).train.images.shape == (64, 64, 3)
    small = load_dataset(config.model_copy(update={"image_size": 32})).train.images
    assert isinstance(small, ArrayImages)
    assert small.shape == (32, 32, 3)


def test_tiny_imagenet_names_are_words_where_they_are_unambiguous(tmp_path: Path) -> None:
    folder = write_tiny(tmp_path)
    words = "n00000000\tcrane, lifting device\nn00000001\tcrane\nn00000002\tegg, ovum\n"
    (folder / "words.txt").write_text(words)
    data = load_dataset(DataConfig(dataset="tiny-imagenet", root=str(tmp_path)))
    assert data.class_names == ("n00000000", "n00000001", "egg")


def test_lost_class_folder_is_noticed(tmp_path: Path) -> None:
    folder = write_tiny(tmp_path)
    (folder / "train" / "n00000001").rename(folder / "elsewhere")
    with pytest.raises(InputError, match="n00000001"):
        load_dataset(DataConfig(dataset="tiny-imagenet", root=str(tmp_path)))


@pytest.mark.parametrize(
    "line", ["../../secret.JPEG\tn00000000", "val_0.JPEG\tn99999999", "val_0.JPEG"]
)
def test_wrong_annotation_is_refused_by_line(line: str, tmp_path: Path) -> None:
    folder = write_tiny(tmp_path)
    with (folder / "val" / "val_annotations.txt").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match="line 4"):
        load_dataset(DataConfig(dataset="tiny-imagenet", root=str(tmp_path)))


def test_check_counts_the_classes_of_tiny_imagenet(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    with pytest.raises(InputError, match="must have 200 classes of 500 train images"):
        check_dataset("tiny-imagenet", str(tmp_path))
