"""C: stores with mutated bytes, settings and arrays, with the old checksum and with a right one.

A mutant is refused with a sentence, or it is a store that answers with finite numbers and can be
inspected, saved and taught.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from remnant.archives import read_archive, write_archive
from remnant.errors import InputError
from remnant.learner import Learner, forget_in_store, learn_into_store
from remnant.learner.learner_state import LearnerConfig
from remnant.learner.store import KIND, VERSION, read_store
from remnant.learner.summary import store_facts
from remnant.learner.verification import verify_store
from remnant.methods import build_method
from remnant.terminal.store_tables import class_table, newest_update, store_lines, update_table
from remnant.training.task_loop import grow_through
from tests.attacks.crash_states import make_store
from tests.attacks.tally import Tally
from tests.support.small_learner import stripes

_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 10**9, 10**30, 1e308, "", "x", "../x", "\x1b[2J", [], {}, [1],
    {"a": 1},
    ["a", "a"], [[]], "raw", "pixels", [10**9] * 3,
)  # fmt: skip
OLD_STORES = Path(__file__).parents[1] / "learner" / "old_stores"
SECONDS, MEGABYTES = 2.0, 64.0  # that a mutant may take, beside the bytes of its file
_TESTS = stripes("a", "c", per_class=2, seed=5)[0]
# A hostile store may ask for a long lesson, which is within its rights; nobody waits for it here.
_LONG = ("epochs", "batch_size", "checkpoint_every_steps", "views_per_image")


def mutate_bytes(content: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, cut out, put in or moved."""
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 4, 64])):
        if not changed:
            break
        place = chance.randrange(len(changed))
        match chance.randrange(5):
            case 0:
                changed[place] ^= 1 << chance.randrange(8)
            case 1:
                changed[place] = chance.randrange(256)
            case 2:
                del changed[place : place + chance.choice([1, 8, 500])]
            case 3:
                changed[place:place] = chance.randbytes(chance.choice([1, 8, 500]))
            case _:
                changed = changed[: max(1, place)]
    return bytes(changed)


def mutate_header(metadata: Any, chance: random.Random) -> str:
    """Change one value anywhere in it, in place; returns where."""
    places = [place for place in _places(metadata) if not set(place) & set(_LONG)]
    *parents, last = chance.choice(places)
    inner = metadata
    for part in parents:
        inner = inner[part]
    match chance.randrange(4):
        case 0 if isinstance(inner, dict):
            del inner[last]
        case 1:
            inner[last] = [inner[last], copy.deepcopy(inner[last])]
        case 2 if isinstance(inner[last], int | float):
            inner[last] = inner[last] * chance.choice([-1, 1000, 1e300])
        case _:
            inner[last] = copy.deepcopy(chance.choice(_VALUES))  # it may be changed next time
    return ".".join(map(str, (*parents, last)))


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [place] if place else []
    if isinstance(value, dict):
        found += [one for key, inner in value.items() for one in _places(inner, (*place, key))]
    elif isinstance(value, list):
        found += [one for key, inner in enumerate(value) for one in _places(inner, (*place, key))]
    return found


def mutate_arrays(arrays: dict[str, np.ndarray], chance: random.Random) -> str:
    """Change one array, in place; returns which."""
    name = chance.choice(sorted(arrays))
    array = np.array(arrays[name])
    match chance.randrange(7):
        case 0:
            del arrays[name]
            return name
        case 1:
            arrays[f"{name}{chance.choice(['', 'x', '/y'])}"] = array[..., :-1]
            return name
        case 2:
            array = array.astype(chance.choice(["float64", "int32", "uint8", "bool"]))
        case 3:
            array = array.reshape(-1)[: chance.randrange(array.size + 1)]
        case 4 if array.size:
            array.reshape(-1)[chance.randrange(array.size)] = chance.choice([0, 1, 2, 127])
        case 5 if array.dtype.kind == "f":
            with np.errstate(all="ignore"):
                array = array * array.dtype.type(chance.choice([1e30, -1e38, np.nan, np.inf]))
        case _:
            array = np.concatenate([array, array])
    arrays[name] = array.astype(array.dtype.newbyteorder("="))
    return name


def use(store: Path) -> None:
    """Everything that a user does with a store; raises what that raises."""
    state = read_store(store)
    facts = store_facts(state, store)
    json.dumps(facts, allow_nan=False)
    for table in (class_table, update_table):
        table(facts)
    list(store_lines(facts))
    if state.history and "forgotten_classes" not in state.history[-1]:
        newest_update(facts)
    size = state.config.image_size
    tests = np.resize(_TESTS, (len(_TESTS), size, size, 3)) if size < 100 else _TESTS
    found = Learner.load(store).set_params(accelerator="cpu", threads=1).predict_proba(tests)
    assert np.isfinite(found).all(), "it answers with numbers that are not finite"
    verify_store(store)


def change(store: Path) -> None:
    """Teach and forget, where the store allows it."""
    learn_into_store(store, *stripes("e"), quiet=True, accelerator="cpu", threads=1, epochs=1)
    forget_in_store(store, "e")
    read_store(store)


def make_stores(folder: Path) -> list[Path]:
    """A store that is taught here, and those of older versions."""
    kept = sorted(OLD_STORES.glob("*.remnant"))
    assert kept, "the stores of older versions are gone"
    copies = [Path(shutil.copy(path, folder / f"old-{path.name}")) for path in kept]
    return [make_store(folder), *copies]


def attack(folder: Path, seed: int, count: int, changes: Callable[[Path], None] = change) -> Tally:
    """Half of `count` with the old checksum, half with a right one."""
    folder.mkdir(parents=True)
    stores, chance, tally = make_stores(folder), random.Random(seed), Tally()
    known = {store: (store.read_bytes(), Learner.load(store).digest()) for store in stores}
    for store in stores:  # what is imported and built once costs no mutant anything
        use(store)
    mutant = folder / "mutant.remnant"
    for number in range(count // 2):
        content, digest = known[chance.choice(stores)]
        mutant.write_bytes(mutate_bytes(content, chance))
        megabytes = len(content) / 1e6 + MEGABYTES
        with tally.trying(
            f"raw mutant {number} of seed {seed}", seconds=SECONDS, megabytes=megabytes
        ):
            assert Learner.load(mutant).digest() == digest, "another store was accepted"
    for number in range(count - count // 2):
        while (where := _write_mutant(mutant, chance.choice(stores), chance)) is None:
            pass
        what = f"mutant {number} of seed {seed}, {where}"
        megabytes = mutant.stat().st_size / 1e6 + MEGABYTES
        with tally.trying(what, seconds=SECONDS, megabytes=megabytes):
            use(mutant)
        if number % 20 == 0:  # training takes as long as it takes
            with tally.trying(f"{what}, taught"):
                changes(mutant)
    return tally


# Small files whose settings ask for much that is in no file: 825 GB and 9 GB.
_SCHEDULE = {"epochs": 1, "batch_size": 8, "optimizer": {"lr": 0.1}}
HUNGRY: dict[str, dict[str, Any]] = {
    "dytox": {
        "first": _SCHEDULE,
        "network": {"patch_size": 4, "width": 4, "depth": 1, "head_width": 1, "mlp_width": 4},
    },
    "bimae": {
        "first": _SCHEDULE,
        "has_detail_branch": False,
        "network": {"patch_size": 1, "width": 256, "depth": 1, "head_width": 64, "mlp_width": 16},
    },
}


def write_hungry(path: Path, method: str) -> None:
    """Make a store one of those, with all the arrays that its settings ask for."""
    arrays, metadata = read_archive(path, KIND, VERSION)
    settings = {"image_size": 2048, "method": {"name": method, **HUNGRY[method]}}
    metadata["settings"] |= settings
    config, sizes = LearnerConfig.parse(metadata["settings"]), metadata["task_sizes"]
    with torch.device("meta"):
        outline = build_method(config, config.image_shape, sizes)
        grow_through(outline, sizes, config.image_shape)
    others = {name: array for name, array in arrays.items() if not name.startswith("model/")}
    model = {
        f"model/{name}": np.zeros(tensor.shape, str(tensor.dtype).removeprefix("torch."))
        for name, tensor in outline.state_dict().items()
    }
    write_archive(path, KIND, VERSION, others | model, metadata)


def _write_mutant(mutant: Path, store: Path, chance: random.Random) -> str | None:
    """Where it differs from the store; None: no file can hold it."""
    arrays, metadata = read_archive(store, KIND, VERSION)
    is_of_arrays = chance.random() < 0.5
    where = mutate_arrays(arrays, chance) if is_of_arrays else mutate_header(metadata, chance)
    try:
        write_archive(mutant, KIND, VERSION, arrays, metadata)
    except (ValueError, TypeError, OverflowError):
        return None
    return f"{store.name}, {where}"


def refuses(path: Path) -> str | None:
    """What is wrong with how a file that is no store is met; None: it is refused."""
    for verb in (read_store, verify_store):
        try:
            verb(path)
        except InputError:
            continue
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "it is accepted"
    return None
