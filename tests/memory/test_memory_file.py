from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.archives import write_archive
from remnant.errors import InputError
from remnant.memory import CODECS, Candidate, Memory, MemoryConfig, PatchesConfig
from tests.support.deflate import DeflateCodec
from tests.support.strategies import memory_configs, pixels

SMALL = (8, 8, 3)
PATCHES = MemoryConfig(codec=PatchesConfig(patch_size=2), budget="3images/class")
JPEG = MemoryConfig.model_validate({"codec": "jpeg", "budget": "9images/class"})
WEBP = MemoryConfig.model_validate({"codec": "webp", "budget": "1KB"})
CODED = MemoryConfig.model_validate({"codec": "coded-patches", "budget": "3images"})
ALL = {"patches": PATCHES, "jpeg": JPEG, "webp": WEBP, "coded-patches": CODED}


def filled(config: MemoryConfig = PATCHES, num_classes: int = 2, seed: int = 0) -> Memory:
    memory = Memory(config, SMALL, seed)
    memory.expect(num_classes)
    for label in range(num_classes):
        memory.add_class(
            label,
            f"class {label}",
            map(Candidate, [pixels(SMALL, 9 * label + i) for i in range(3)]),
        )
    return memory


@given(memory_configs(), st.integers(0, 4))
@settings(max_examples=20, deadline=None)
def test_a_memory_survives_its_arrays(config: MemoryConfig, num_classes: int) -> None:
    memory = filled(config, num_classes)
    again = Memory.from_arrays(*memory.state_arrays())
    assert again.digest() == memory.digest()
    assert (again.counts, again.class_names) == (memory.counts, memory.class_names)
    assert (again.config, again.seed, again.nbytes) == (config, memory.seed, memory.nbytes)
    assert [again.exemplars(label) for label in again.labels] == [
        memory.exemplars(label) for label in memory.labels
    ]


def test_equal_contents_give_equal_files_however_they_came_about(tmp_path: Path) -> None:
    first = filled()
    second = Memory(PATCHES, SMALL, seed=0)
    second.add_class(1, "class 1", map(Candidate, [pixels(SMALL, 9 + i) for i in range(3)]))
    second.add_class(5, "gone", map(Candidate, [pixels(SMALL, 77)]))
    second.remove_class(5)
    second.add_class(0, "class 0", map(Candidate, [pixels(SMALL, i) for i in range(3)]))
    digests = first.save(tmp_path / "a"), second.save(tmp_path / "nested" / "b")
    assert digests == (first.digest(), second.digest())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "nested" / "b").read_bytes()


def test_a_loaded_memory_goes_on_like_the_saved_one(tmp_path: Path) -> None:
    memory = filled()
    memory.save(tmp_path / "memory")
    again = Memory.load(tmp_path / "memory")
    for one in (memory, again):
        one.add_class(7, "new", map(Candidate, [pixels(SMALL, 70)]))
    assert again.digest() == memory.digest()


def test_the_digest_tells_memories_apart() -> None:
    thinned = filled()
    thinned.remove_exemplar(1, 2)
    assert len({filled().digest(), filled(seed=1).digest(), thinned.digest()}) == 3


def test_what_was_removed_is_not_in_the_file(tmp_path: Path) -> None:
    planted = np.full(SMALL, 171, dtype=np.uint8)
    planted[::2] = 93
    pattern = planted[:2].tobytes()
    memory = filled(MemoryConfig(budget="3images/class"))
    memory.add_class(2, "a secret name", map(Candidate, [pixels(SMALL, 50), planted]))
    memory.add_class(3, "another", map(Candidate, [planted]))
    path = tmp_path / "memory"
    memory.save(path)
    assert path.read_bytes().count(pattern) == 8
    memory.remove_exemplar(2, 1)
    memory.save(path)
    assert path.read_bytes().count(pattern) == 4
    memory.remove_class(3)
    memory.remove_class(2)
    memory.save(path)
    assert pattern not in path.read_bytes()
    assert b"secret" not in path.read_bytes()
    assert Memory.load(path).labels == [0, 1]


def test_the_ledger_accounts_for_the_file(tmp_path: Path) -> None:
    for index, config in enumerate((PATCHES, JPEG, MemoryConfig())):
        memory = filled(config)
        memory.save(tmp_path / str(index))
        ledger = memory.ledger()
        fixed = ledger.pop("fixed")
        container = (tmp_path / str(index)).stat().st_size - sum(ledger.values())
        assert 0 < container - sum(fixed.values()) < 800


def test_what_all_exemplars_share_is_stored_once_and_listed_as_fixed() -> None:
    one, many = filled(JPEG, num_classes=1), filled(JPEG, num_classes=4)
    assert one.codec.tables
    for memory in (one, many):
        arrays, _ = memory.state_arrays()
        assert arrays["tables"].tobytes() == memory.codec.tables
        ledger = memory.ledger()
        assert ledger["fixed"]["tables"] == len(memory.codec.tables)
        assert memory.nbytes == ledger["payload"] + ledger["lengths"]


@pytest.mark.slow
def test_a_flipped_bit_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    small = MemoryConfig(budget="60B/class", codec=PatchesConfig(patch_size=4))
    filled(small, num_classes=1).save(path)
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(damaged)
        with pytest.raises(InputError):
            Memory.load(path)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_changed_byte_is_found_under_any_codec(
    saved: dict[str, Path], data: st.DataObject
) -> None:
    path = saved[data.draw(st.sampled_from(sorted(saved)))]
    content = path.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    damaged = bytearray(content)
    damaged[place] ^= data.draw(st.integers(1, 255))
    copy = path.with_suffix(".damaged")
    copy.write_bytes(damaged)
    with pytest.raises(InputError):
        Memory.load(copy)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file of each kind."""
    folder = tmp_path_factory.mktemp("memories")
    for name, config in ALL.items():
        filled(config).save(folder / name)
    return {name: folder / name for name in ALL}


def test_a_memory_whose_quality_was_lowered_opens_with_the_codec_it_holds() -> None:
    """Quality could once give way before exemplars did; the header then names two codecs."""
    memory = filled(WEBP)
    arrays, metadata = memory.state_arrays()
    held = metadata["config"]["codec"]
    old = metadata["config"] | {"codec": held | {"quality": 95}, "when_full": "recode"}
    again = Memory.from_arrays(arrays, metadata | {"config": old, "codec": held})
    assert again.digest() == memory.digest()


def test_a_missing_or_shortened_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    with pytest.raises(InputError, match="does not exist"):
        Memory.load(path)
    filled().save(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError):
        Memory.load(path)


# ------------------------------------------------------------------- contents with a true checksum


def without(name: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda arrays, metadata: arrays.pop(name)


def setting(name: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda arrays, metadata: (arrays if name in arrays else metadata).update({name: value})


@pytest.mark.parametrize(
    "change",
    [
        *(without(name) for name in ("payload", "positions", "counts", "labels")),
        setting("payload", np.zeros(5, np.uint8)),
        setting("positions", np.zeros(12, np.uint8)),
        setting("positions", np.full(12, 255, np.uint8)),
        setting("counts", np.array([3, 2], np.int64)),
        setting("counts", np.array([7, -1], np.int64)),
        setting("counts", np.array([2**62, 2**62], np.int64)),
        setting("counts", np.array([[3], [3]], np.int64)),
        setting("counts", np.array([3.0, 3.0])),
        setting("labels", np.array([1, 0], np.int64)),
        setting("labels", np.array([0, 0], np.int64)),
        setting("labels", np.array([-1, 0], np.int64)),
        setting("names", ["one"]),
        setting("names", [1, 2]),
        setting("image_shape", [8, 8]),
        setting("image_shape", [10**9, 10**9, 3]),
        setting("image_shape", [16, 8, 3]),
        setting("num_seen_classes", 1),
        setting("num_seen_classes", -1),
        setting("config", {"budget": "lots"}),
        setting("config", {"budget": "1B/class"}),
        setting("config", {"budget": "577B/class", "codec": {"name": "patches", "patch_size": 4}}),
        setting("extra", 1),
    ],
)
def test_impossible_contents_are_refused_in_one_sentence(
    change: Callable[[dict[str, Any], dict[str, Any]], None], tmp_path: Path
) -> None:
    arrays, metadata = filled().state_arrays()
    change(arrays, metadata)
    write_archive(tmp_path / "memory", "memory", 1, arrays, metadata)
    with pytest.raises(InputError) as caught:
        Memory.load(tmp_path / "memory")
    assert "\n" not in str(caught.value)


def test_more_than_the_budget_is_refused() -> None:
    arrays, metadata = filled().state_arrays()
    metadata["config"]["budget"] = "60B/class"
    with pytest.raises(InputError, match="a class takes 150 bytes, more than 60"):
        Memory.from_arrays(arrays, metadata)


def test_lengths_are_stored_where_they_vary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CODECS, "raw", DeflateCodec)
    memory = filled(MemoryConfig())
    arrays, metadata = memory.state_arrays()
    sizes = [len(zlib.compress(pixels(SMALL, seed).tobytes())) for seed in (0, 1, 2, 9, 10, 11)]
    assert arrays["lengths"].tolist() == sizes
    assert arrays["lengths"].dtype == np.uint16
    assert Memory.from_arrays(arrays, metadata).digest() == memory.digest()
    arrays["lengths"] = arrays["lengths"][:-1]
    with pytest.raises(InputError, match="must have a length"):
        Memory.from_arrays(arrays, metadata)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("tables", np.zeros(3, np.uint8), "shared tables"),
        ("tables", None, "must have the arrays"),
        ("lengths", np.full(6, 65_535, np.uint16), "payload must have 393,210 bytes"),
        ("lengths", np.zeros(6, np.uint16), "payload must have 0 bytes"),
        ("lengths", np.zeros(6, np.uint32), "one row of uint16"),
        ("counts", np.array([2**40, 2**40], np.int64), "must have a length"),
    ],
)
def test_sizes_are_compared_before_anything_is_made_of_them(
    name: str, value: np.ndarray | None, sentence: str
) -> None:
    arrays, metadata = filled(JPEG).state_arrays()
    if value is None:
        del arrays[name]
    else:
        arrays[name] = value
    with pytest.raises(InputError, match=sentence):
        Memory.from_arrays(arrays, metadata)


def test_an_impossible_exemplar_is_named_by_class_and_rank() -> None:
    arrays, metadata = filled().state_arrays()
    arrays["positions"] = arrays["positions"].copy()
    arrays["positions"][8:10] = 0  # two bytes each: the fifth of six
    with pytest.raises(InputError, match="exemplar 1 of class 'class 1': the positions"):
        Memory.from_arrays(arrays, metadata)


def test_a_true_checksum_over_a_payload_of_nonsense_is_named_when_it_is_decoded() -> None:
    arrays, metadata = filled(WEBP).state_arrays()
    arrays["payload"] = np.full_like(arrays["payload"], 255)
    with pytest.raises(InputError, match="exemplar 0 of class 'class 0' cannot be decoded"):
        Memory.from_arrays(arrays, metadata).images()


@pytest.mark.slow
@pytest.mark.parametrize("config", ALL.values(), ids=ALL)
def test_thousands_of_mutated_files_raise_nothing_but_input_errors(
    config: MemoryConfig, tmp_path: Path
) -> None:
    path, rng = tmp_path / "memory", random.Random(0)
    filled(config).save(path)
    content = path.read_bytes()
    for _ in range(2_000):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            start = rng.randrange(len(damaged))
            piece = rng.randbytes(rng.randint(0, 4))
            damaged[start : start + rng.randint(0, 6)] = piece
        if damaged == content:
            continue
        path.write_bytes(damaged)
        with pytest.raises(InputError):
            Memory.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("config", ALL.values(), ids=ALL)
def test_thousands_of_mutated_contents_load_or_are_refused(config: MemoryConfig) -> None:
    rng, memory = random.Random(1), filled(config, num_classes=1)
    values = [None, True, -1, 0, 3, 2**63, 1e308, "", "x", [], [1], {}, {"name": "raw"}, "raw"]
    for _ in range(2_000):
        arrays, metadata = memory.state_arrays()
        target = rng.choice([metadata, metadata["config"], metadata["config"]["codec"]])
        target[rng.choice(sorted(target))] = rng.choice(values)
        name = rng.choice(sorted(arrays))
        size, dtype = rng.randint(0, 9), rng.choice(["u1", "i8", "f4", arrays[name].dtype])
        if rng.random() < 0.5:
            arrays[name] = np.frombuffer(rng.randbytes(8 * size), dtype=dtype)
        try:
            Memory.from_arrays(arrays, metadata).images()
        except InputError:
            continue
