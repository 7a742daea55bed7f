"""Files that are no store, damaged or crafted: refused with a sentence, and left as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remnant.archives import read_archive, write_archive
from remnant.errors import InputError
from remnant.learner import Learner, forget_in_store, learn_into_store, store_checks
from remnant.learner import store as store_module
from remnant.learner.store import KIND, VERSION
from remnant.learner.store_checks import telling_full_memory
from tests.support.small_learner import Counter, stripes, tiny_learner
from tests.support.striped_store import TESTS, names_in

# ------------------------------------------------------------------------------------------ damages


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def turn_to_text(path: Path) -> None:
    path.write_text("not a store")


def rewritten(**changes: Any) -> Callable[[Path], None]:
    def rewrite(path: Path) -> None:
        arrays, metadata = read_archive(path, KIND, VERSION)
        write_archive(path, KIND, VERSION, arrays, metadata | changes)

    return rewrite


def make_newer(path: Path) -> None:
    arrays, metadata = read_archive(path, KIND, VERSION)
    write_archive(path, KIND, VERSION + 1, arrays, metadata)


def make_a_memory(path: Path) -> None:
    write_archive(path, "memory", 1, {}, {})


def swap_weights(path: Path) -> None:
    arrays, metadata = read_archive(path, KIND, VERSION)
    arrays["model/classifier.weight"] = arrays["model/classifier.weight"][:, :5]
    write_archive(path, KIND, VERSION, arrays, metadata)


def revised(change: Callable[[dict[str, Any], Any], None]) -> Callable[[Path], None]:
    """A store with a right checksum, as a stranger may make it."""

    def revise(path: Path) -> None:
        arrays, metadata = read_archive(path, KIND, VERSION)
        change(arrays, metadata)
        write_archive(path, KIND, VERSION, arrays, metadata)

    return revise


def with_nan(arrays: dict[str, Any], metadata: Any) -> None:
    arrays["model/classifier.weight"] = arrays["model/classifier.weight"] * np.nan


def with_infinity(arrays: dict[str, Any], metadata: Any) -> None:
    arrays["model/classifier.bias"] = np.full_like(arrays["model/classifier.bias"], np.inf)


def with_other_types(arrays: dict[str, Any], metadata: Any) -> None:
    arrays["model/classifier.bias"] = arrays["model/classifier.bias"].astype(np.float64)


def with_one_array_more(arrays: dict[str, Any], metadata: Any) -> None:
    arrays["model/more"] = np.zeros(3, np.float32)


def with_a_label_beyond(arrays: dict[str, Any], metadata: Any) -> None:
    arrays["memory/labels"] = arrays["memory/labels"] + 1


def with_other_names(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["memory"]["names"] = ["a", "x"]


def with_more_seen(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["memory"]["num_seen_classes"] = 10**9


def with_a_huge_memory(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["memory"]["image_shape"] = [8192, 8192, 3]
    metadata["memory"]["config"]["codec"] = {"name": "jpeg", "quality": 75}


def with_a_name_twice(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["classes"] = ["a", "a"]


def with_a_listed_method(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["settings"]["method"]["name"] = ["pixels"]


def with_a_grouped_parameter(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["parameters"]["method"] = {"name": "pixels"}


def with_numbered_options(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["parameters"]["options"] = 7


def with_a_huge_mean(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["settings"]["mean"] = [1e308, 0, 0]


def with_no_deviation(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["settings"]["std"] = [0, 0, 0]


def with_a_negative_task(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["task_sizes"] = [3, -1]


def with_an_odd_history(arrays: dict[str, Any], metadata: Any) -> None:
    metadata["history"] = [{"when": 7}]


def drop_a_setting(path: Path) -> None:
    arrays, metadata = read_archive(path, KIND, VERSION)
    metadata["settings"]["method"]["from_the_future"] = 1
    write_archive(path, KIND, VERSION, arrays, metadata | {"remnant": "0.9.0"})


def raise_the_budget(path: Path) -> None:
    """Only where the memory says it, so that it could hold anything."""
    arrays, metadata = read_archive(path, KIND, VERSION)
    metadata["memory"]["config"]["budget"] = "900GiB"
    write_archive(path, KIND, VERSION, arrays, metadata)


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (flip_a_byte, "checksum does not match"),
    (cut_short, "not a readable remnant file"),
    (empty, "not a readable remnant file"),
    (turn_to_text, "not a readable remnant file"),
    (make_newer, "store format version 2; this remnant reads version 1"),
    (make_a_memory, "must be a remnant store file; it is a memory file"),
    (swap_weights, "weights that do not fit its settings"),
    (rewritten(classes=["a"]), "names 1 classes for 2 outputs"),
    (rewritten(settings=7), "cannot be used: settings must be a group of settings"),
    (rewritten(memory={}), "does not hold a usable memory"),
    (raise_the_budget, "its budget is 900GiB, not "),
    (revised(with_nan), "numbers that are not finite"),
    (revised(with_infinity), "numbers that are not finite"),
    (revised(with_other_types), r"must be of torch\.float32; it is of float64"),
    (revised(with_one_array_more), "model/more is superfluous"),
    (revised(with_a_label_beyond), "names other classes"),
    (revised(with_other_names), "names other classes"),
    (revised(with_more_seen), "it has seen 1,000,000,000 classes of 2"),
    (revised(with_a_huge_memory), r"its images must be \(8, 8, 3\)"),
    (revised(with_a_name_twice), "names a class twice"),
    (revised(with_a_listed_method), r"method\.name must be one of"),
    (revised(with_a_grouped_parameter), "method must be text"),
    (revised(with_numbered_options), "options"),
    (revised(with_a_huge_mean), "mean of images must be between"),
    (revised(with_no_deviation), "deviation of images must be from"),
    (revised(with_a_negative_task), "must be at least 0"),
    (revised(with_an_odd_history), "has an invalid entry for update 1"),
    (drop_a_setting, r"from_the_future is not a setting.*written by remnant 0\.9\.0"),
]


# ----------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(("damage", "told"), DAMAGES)
def test_a_store_that_cannot_be_used_is_told_and_left_as_it_is(
    store: Path, damage: Callable[[Path], None], told: str
) -> None:
    damage(store)
    content = store.read_bytes()
    for use in (
        lambda: Learner.load(store),
        lambda: learn_into_store(store, *stripes("e"), quiet=True),
        lambda: forget_in_store(store, "a"),
    ):
        with pytest.raises(InputError, match=told):
            use()
    assert store.read_bytes() == content
    assert names_in(store.parent) == [store.name]


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("dytox", {"network": {"width": 20000, "head_width": 20000, "mlp_width": 10**9}}),
        ("dytox", {"network": {"depth": 10**9}}),
        ("ranpac", {"num_projected": 10**12}),
        ("er", {"backbone": {"name": "conv", "channels": [10**9, 10**9]}}),
    ],
)
def test_settings_of_a_network_beyond_all_memory_are_refused_at_no_cost(
    store: Path, method: str, settings: dict[str, Any]
) -> None:
    def enlarge(arrays: dict[str, Any], metadata: Any) -> None:
        first = metadata["settings"]["method"]["first"]
        metadata["settings"]["method"] = {"name": method, "first": first, **settings}

    revised(enlarge)(store)
    with pytest.raises(InputError, match=r"weights that do not fit|cannot be used"):
        Learner.load(store)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 550 GB")],
    ids=["python", "torch"],
)
def test_a_store_for_which_there_is_too_little_memory_is_told(
    store: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def run_out(*args: object) -> None:
        raise error

    monkeypatch.setattr(store_module, "restore", run_out)
    with pytest.raises(InputError, match=r"must fit into memory; there is too little\. Open it"):
        Learner.load(store)


def test_other_errors_of_a_store_are_not_taken_for_a_lack_of_memory() -> None:
    with pytest.raises(RuntimeError, match="a bug"), telling_full_memory("the store"):
        raise RuntimeError("a bug")


def test_a_network_whose_store_would_be_refused_is_not_trained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_checks, "_MAX_BESIDE", -1)
    steps = Counter()
    with pytest.raises(InputError, match=r"the network must take at most .* Choose smaller images"):
        tiny_learner().partial_fit(*stripes("a", "c"), watchers=(steps,))
    assert steps.steps == []


def test_weights_that_overflow_are_told(store: Path) -> None:
    def enlarge(arrays: dict[str, Any], metadata: Any) -> None:
        weight = np.full_like(arrays["model/classifier.weight"], 3e38)
        weight[:, ::2] *= -1
        arrays["model/classifier.weight"] = weight

    revised(enlarge)(store)
    with pytest.raises(InputError, match="must give finite scores"):
        Learner.load(store).predict(TESTS[0])


def test_what_a_later_minor_version_adds_is_passed_over(store: Path) -> None:
    before = Learner.load(store).digest()
    rewritten(mood="good", remnant="0.9.0")(store)
    assert Learner.load(store).digest() == before


def test_a_missing_store_and_a_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        Learner.load(tmp_path / "none.remnant")
    for use in (Learner.load, lambda path: learn_into_store(path, *stripes("a"))):
        with pytest.raises(InputError, match="it is a folder"):
            use(tmp_path)
