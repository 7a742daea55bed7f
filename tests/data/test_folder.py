"""Claims about the user's own folders of images."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from remnant.data import DataConfig, check_dataset, describe_dataset, load_dataset
from remnant.data.file_images import FileImages
from remnant.errors import InputError
from remnant.images import ImageSet
from tests.support.picture_files import flat, write_classes


def folder_config(path: Path, **options: float) -> DataConfig:
    return DataConfig(dataset="folder", path=str(path), **options)


def files_of(images: ImageSet) -> list[Path]:
    assert isinstance(images.images, FileImages)
    return [images.images.paths[row] for row in images.images.rows.tolist()]


def test_train_and_test_folders_are_used_as_they_are(tmp_path: Path) -> None:
    write_classes(tmp_path / "train", {"rose": 3, "daisy": 2})
    write_classes(tmp_path / "test", {"rose": 1, "daisy": 1})
    data = load_dataset(folder_config(tmp_path))
    assert data.class_names == ("daisy", "rose")
    assert data.train.labels.tolist() == [0, 0, 1, 1, 1]
    assert data.test.labels.tolist() == [0, 1]
    assert data.train.images.shape == (224, 224, 3)
    assert data.train.images.is_lazy
    assert data.train.images.read(torch.tensor([4]))[0, 0, 0, 0] == 2


def test_one_folder_is_split_per_class_without_loss_or_overlap(tmp_path: Path) -> None:
    write_classes(tmp_path, {"a": 10, "b": 3})
    data = load_dataset(folder_config(tmp_path))
    assert data.test.labels.bincount().tolist() == [2, 1]
    assert sorted(data.train.ids.tolist() + data.test.ids.tolist()) == list(range(13))


def test_a_new_class_moves_no_image_of_another(tmp_path: Path) -> None:
    write_classes(tmp_path, {"b": 20})
    before = files_of(load_dataset(folder_config(tmp_path)).test)
    write_classes(tmp_path, {"a": 20})
    after = files_of(load_dataset(folder_config(tmp_path)).test)
    assert [path for path in after if path.parent.name == "b"] == before


def test_other_files_and_hidden_ones_are_skipped(tmp_path: Path) -> None:
    write_classes(tmp_path, {"a": 2, "b": 2, ".thumbnails": 2})
    (tmp_path / "a" / "notes.txt").write_text("not an image")
    (tmp_path / "a" / "._000.png").write_text("not an image")
    flat(0).save(tmp_path / "a" / "UPPER.PNG")
    data = load_dataset(folder_config(tmp_path))
    assert data.class_names == ("a", "b")
    assert len(data.train) + len(data.test) == 5


def test_holdout_never_opens_a_test_file(tmp_path: Path) -> None:
    write_classes(tmp_path, {"a": 10, "b": 10})
    test_files = files_of(load_dataset(folder_config(tmp_path)).test)
    for path in test_files:
        path.write_text("opening me is an error")
    data = load_dataset(folder_config(tmp_path, holdout_ratio=0.25))
    for images in (data.train, data.test):
        assert not set(files_of(images)) & set(test_files)
        images.images.read(torch.arange(len(images)))


def test_holdout_needs_no_test_folder(tmp_path: Path) -> None:
    write_classes(tmp_path / "train", {"a": 4, "b": 4})
    data = load_dataset(folder_config(tmp_path, holdout_ratio=0.5))
    assert (len(data.train), len(data.test)) == (4, 4)
    with pytest.raises(InputError, match=r"test.a must hold the test images"):
        load_dataset(folder_config(tmp_path))


def test_test_class_without_training_images_is_refused(tmp_path: Path) -> None:
    write_classes(tmp_path / "train", {"a": 1})
    write_classes(tmp_path / "test", {"a": 1, "b": 1})
    with pytest.raises(InputError, match='"b", which has no training images'):
        load_dataset(folder_config(tmp_path))


def test_folders_that_hold_too_little_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Check the path"):
        load_dataset(folder_config(tmp_path / "none"))
    with pytest.raises(InputError, match="one folder per class"):
        load_dataset(folder_config(tmp_path))
    write_classes(tmp_path, {"a": 1})
    with pytest.raises(InputError, match='class "a" must have at least 2 images'):
        load_dataset(folder_config(tmp_path))
    (tmp_path / "b").mkdir()
    with pytest.raises(InputError, match=r"/b/? must hold the images"):
        load_dataset(folder_config(tmp_path))


def test_class_with_too_few_images_is_named(tmp_path: Path) -> None:
    write_classes(tmp_path / "train", {"a": 5, "b": 3})
    write_classes(tmp_path / "test", {"a": 1, "b": 1})
    with pytest.raises(
        InputError, match=r'class "b" has 3 training images; .* is 4. Set it to at most 3'
    ):
        load_dataset(folder_config(tmp_path, images_per_class=4))


def test_facts_are_read_from_the_listing_alone(tmp_path: Path) -> None:
    write_classes(tmp_path, dict.fromkeys("abcdef", 10))
    for path in tmp_path.rglob("*.png"):
        path.write_text("opening me is an error")
    known = describe_dataset(folder_config(tmp_path))
    assert (known.num_classes, known.train_per_class, known.test_per_class) == (6, 8, 2)
    assert known.default_num_tasks == 3


def test_check_decodes_every_image_and_names_the_broken_ones(tmp_path: Path) -> None:
    write_classes(tmp_path, {"a": 5, "b": 5})
    seen: list[tuple[int, int | None]] = []
    lines = check_dataset("folder", str(tmp_path), progress=lambda *count: seen.append(count))
    assert lines[0] == "train: 8 images of 2 classes, all decoded"
    assert seen[-1] == (10, 10)
    (tmp_path / "b" / "003.png").write_text("no image")
    (tmp_path / "a" / "001.png").write_text("no image either")
    with pytest.raises(InputError, match=r"a.001\.png .* decode") as told:
        check_dataset("folder", str(tmp_path))
    assert str(tmp_path / "b" / "003.png") in str(told.value)
