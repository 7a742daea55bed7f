"""Commands for stores: learn, predict, inspect, forget and export."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from remnant.cli import console
from remnant.errors import InputError
from remnant.terminal.visible import visible

if TYPE_CHECKING:
    from remnant.learner.learner_state import LearnerState

Floats = Annotated[bool, Parameter(name="--float", negative="")]
Csv = Annotated[
    bool, Parameter(name="--csv", negative="", help="Print one line per class and file, as CSV.")
]
Reject = Annotated[
    bool,
    Parameter(
        name="--reject",
        negative="",
        help="Answer 'none of these' for images unlike any class taught.",
    ),
]
Card = Annotated[
    bool,
    Parameter(name="--card", negative="", help="Also write NAME.card.md and NAME.html."),
]
Strict = Annotated[
    bool,
    Parameter(name="--strict", negative="", help="Refuse the folder if one image cannot be read."),
]
Tune = Annotated[
    bool,
    Parameter(
        name="--tune",
        negative="",
        help="Tune the upper layers of the encoder too, with replay; takes minutes.",
    ),
]
Yes = Annotated[bool, Parameter(name="--yes", negative="", help="Do not ask for confirmation.")]
_RUN_AGAIN = "The store is unchanged, and the same command can be run again"


def learn(
    store: Path,
    folder: Path,
    /,
    *,
    test: Path | None = None,
    budget: str | None = None,
    encoder: str | None = None,
    method: str | None = None,
    tune: Tune = False,
    guard: float | None = None,
    strict: Strict = False,
    card: Card = False,
    image_size: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
    accelerator: str | None = None,
    set_: console.SetOption = None,
) -> None:
    """Teach a store the classes in a folder. Options that are not given are chosen automatically.

    If it is interrupted, run the same command again: it continues from the last checkpoint. The
    store file is replaced only at the very end.

    Parameters
    ----------
    store
        The store file, NAME.remnant; created if it does not exist.
    folder
        A folder with one sub-folder of images per class; classes may be new or already known.
    test
        A folder of the same layout with test images; measures the accuracy after the update.
    budget
        Memory for exemplars: 1MiB/class, 20MiB. The first update fixes it, as it does encoder,
        method, image size, seed and --set; `remnant rebudget` changes it later.
    encoder
        A pretrained network: efficientnet-lite0, a file that ends in .safetensors or .onnx, or
        hf:ORG/NAME. Chosen for images of 64 px or more, if one is installed; none trains from
        scratch.
    method
        A name from `remnant list methods`.
    guard
        Refuse the update if the accuracy of an old class drops by more than this many points.
    image_size
        Side in pixels to which images are resized.
    epochs
        Passes over the new images and the exemplars.
    minutes
        Train for about this many minutes instead, by the clock; epochs are added or dropped as
        the speed changes.
    batch_size
        Images per training step.
    seed
        Seed of all random numbers.
    accelerator
        auto, cpu, cuda or mps.
    """
    from remnant.learner import learn_into_store
    from remnant.learner.summary import store_facts
    from remnant.terminal.store_tables import newest_update

    if tune and method not in (None, "tuned"):
        raise InputError(f"--tune is the method tuned; got --method {method}. Leave one out.")
    check_length(epochs, minutes)
    given = {
        "budget": budget,
        "encoder": encoder,
        "guard": guard,
        "strict": strict or None,
        "method": "tuned" if tune else method,
        "image_size": image_size,
        "epochs": epochs,
        "minutes": minutes,
        "batch_size": batch_size,
        "seed": seed,
        "accelerator": accelerator,
        "options": console.parse_settings(set_, {}) or None,
    }
    parameters = {name: value for name, value in given.items() if value is not None}
    if card:
        check_card(store)
    with explaining_stops(store):
        state = learn_into_store(store, folder, test=test, **parameters)
    console.out.print(newest_update(store_facts(state, store)))
    if card:
        tell_card(state, store, test)
    console.suggest("remnant predict", shlex.quote(str(store)), "IMAGE")


def predict(
    store: Path,
    /,
    *files: Path,
    top: Annotated[int, Parameter(name="--top")] = 5,
    as_json: console.JsonOption = False,
    reject: Reject = False,
    as_csv: Csv = False,
) -> None:
    """Predict the classes of images, most probable first.

    A file that cannot be read is reported on standard error. The other files are still predicted,
    and the exit code is 2.

    Parameters
    ----------
    store
        A store file, as written by `remnant learn`.
    files
        Image files, and folders of them.
    top
        Number of classes to print for each image.
    """
    if not files:
        raise InputError(f"give at least one image: remnant predict {store} IMAGE.")
    if top < 1:
        raise InputError(f"--top must be at least 1; got {top}.")
    if as_json and as_csv:
        raise InputError("give --json or --csv, not both.")
    from remnant.cli.prediction_output import print_as_json, print_csv, print_lines, report_errors
    from remnant.learner.predictor import Predictor, predict_files
    from remnant.learner.store import read_store

    predictor = Predictor(read_store(store))
    if reject:
        predictor.require_rejection()  # before any file is read
    predictions = predict_files(predictor, files, top, rejects=reject)
    show = print_csv if as_csv else print_as_json if as_json else print_lines
    if show(report_errors(predictions)) > 0:
        sys.exit(2)


def inspect(
    store: Path,
    /,
    *,
    html: Path | None = None,
    test: Path | None = None,
    as_json: console.JsonOption = False,
) -> None:
    """Show the classes, exemplars and updates of a store.

    Parameters
    ----------
    store
        A store file, as written by `remnant learn`.
    html
        Also write a web page with the exemplars, as stored and as completed, to this file.
    test
        A folder of test images by class: the page then has a confusion matrix and the most
        confident mistakes.
    """
    from remnant.learner.scoring import score_folder
    from remnant.learner.store import read_store
    from remnant.learner.summary import store_facts, write_gallery
    from remnant.terminal.store_tables import class_table, store_lines, update_table

    state = read_store(store)
    if test is not None and html is None:
        raise InputError("--test is for the page. Give --html FILE too, or use remnant score.")
    if html is not None:
        _check_target("--html", html, store)
        scored = None if test is None else score_folder(state, test)
        write_gallery(state, store, html, scored)
    facts = store_facts(state, store)
    if as_json:
        console.print_json(facts)
        return
    for line in store_lines(facts):
        console.out.print(line, markup=False)
    for table in (class_table(facts), update_table(facts)):
        console.out.print()
        console.out.print(table)
    if html is not None:
        console.out.print(f"page: {html}", markup=False)
    else:
        console.suggest("remnant inspect", shlex.quote(str(store)), "--html store.html")


def forget(store: Path, name: str, /, *, receipt: Path | None = None, yes: Yes = False) -> None:
    """Remove a class from a store: its exemplars, its row of the classifier and its name.

    A receipt says what was removed and what cannot be undone; `remnant verify` compares it with a
    store.

    Parameters
    ----------
    store
        A store file, as written by `remnant learn`.
    name
        The class to remove.
    receipt
        The file to write the receipt to; by default NAME.remnant.receipt-1.json beside the store.
    """
    from remnant.learner.learner_state import check_forgettable
    from remnant.learner.receipts import check_receipt_path, free_receipt_path
    from remnant.learner.store import forget_with_receipt, read_store

    state = read_store(store)
    label = console.class_label(name, state.classes)
    check_forgettable(state, label)  # before the user is asked to confirm
    target = free_receipt_path(store) if receipt is None else receipt
    _check_target("the receipt", target, store)
    check_receipt_path(target)
    if not yes:
        _confirm(name, store)
    with explaining_stops(store, has_checkpoints=False):
        message, _ = forget_with_receipt(store, label, target)
    console.out.print(visible(message), markup=False)
    console.out.print(f"receipt: {visible(target)}", markup=False)
    _tell_pages(store)


def _tell_pages(store: Path) -> None:
    """Name what `remnant learn --card` wrote beside a store, since a forgotten class is in it."""
    from remnant.learner.store_card import card_paths

    left = [visible(path) for path in reversed(card_paths(store)) if path.exists()]
    if left:
        few = "still shows the class; delete it" if len(left) == 1 else "still show it; delete them"
        console.out.print(
            f"note: {' and '.join(left)} {few}, or write a new page with remnant inspect --html.",
            markup=False,
            highlight=False,
        )


def export(store: Path, model: Path, /, *, floats: Floats = False) -> None:
    """Write an ONNX model that predicts class probabilities, and check it against torch.

    Parameters
    ----------
    store
        A store file, as written by `remnant learn`.
    model
        The model file to write, NAME.onnx.
    floats
        The input of the model is floats from 0 to 1 instead of bytes.
    """
    from remnant.learner.onnx_export import export as write_model
    from remnant.learner.store import read_store
    from remnant.reports.units import bytes_text

    state = read_store(store)
    _check_target("the model", model, store)
    check = write_model(state, model, takes_floats=floats)
    console.out.print(
        f"{model}: {bytes_text(check.num_bytes)}; onnxruntime and torch agree within "
        f"{check.max_difference:.1e} on {check.num_images} images",
        markup=False,
    )


def check_length(epochs: int | None, minutes: float | None) -> None:
    """Refuse two answers to how long to train."""
    if epochs is not None and minutes is not None:
        raise InputError("give --epochs or --minutes, not both.")


def check_card(store: Path) -> None:
    """Refuse, before anything is trained, a card or a page that could not be written."""
    from remnant.learner.store_card import card_paths

    for what, target in zip(("the card", "the page"), card_paths(store), strict=True):
        _check_target(what, target, store)


def tell_card(state: LearnerState, store: Path, test: Path | None) -> None:
    """Write the card and the page of a store, and say where."""
    from remnant.learner.store_card import write_card

    for written in write_card(state, store, test):
        console.out.print(f"wrote {visible(written)}", markup=False, highlight=False)


@contextmanager
def explaining_stops(store: Path, *, has_checkpoints: bool = True) -> Iterator[None]:
    """Say how to continue when a command is interrupted or the disk is full.

    Args:
        has_checkpoints: Whether the command continues from checkpoints. Those that lie beside the
            store may be of another one.
    """
    from remnant.learner.previous_store import which_file
    from remnant.learner.work_folder import UnsyncedStoreError

    before = None
    missing = [folder for folder in store.absolute().parents if not folder.exists()]
    try:
        before = which_file(store)
        yield
    except KeyboardInterrupt:
        command = shlex.join(["remnant", *sys.argv[1:]])
        if has_checkpoints:
            how = f"{_how_to_continue(store)}: {command}"
        elif which_file(store) == before:
            how = f"{_RUN_AGAIN}: {command}"
        else:
            how = "The new store had already been written."
        console.notes.print(f"stopped. {how}", markup=False)
        sys.exit(130)
    except OSError as error:
        if isinstance(error, UnsyncedStoreError):
            raise InputError(f"{error.strerror}.") from None
        place = f"{error.filename}: " if error.filename else ""
        raise InputError(
            f"{place}{error.strerror or error}. The store is unchanged; fix this and run the same "
            "command again."
        ) from None
    finally:
        for empty in missing:
            if empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()


# ------------------------------------------------------------------------------------------ private


def _how_to_continue(store: Path) -> str:
    from remnant.learner.work_folder import has_checkpoint

    if has_checkpoint(store.resolve()):
        return "Run the same command again to continue from the last checkpoint"
    return "There was no checkpoint yet, so running the same command again starts over"


def _confirm(name: str, store: Path) -> None:
    if not sys.stdin.isatty():
        raise InputError(
            f"forgetting {name!r} cannot be undone and needs confirmation, but standard input is "
            "not a terminal. Add --yes."
        )
    console.notes.print(
        f"Forget {name!r} in {store}? This cannot be undone. [y/N] ", end="", markup=False
    )
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        console.notes.print("Nothing was changed.")
        sys.exit(1)


def _check_target(what: str, target: Path, store: Path) -> None:
    if target.is_dir():
        raise InputError(f"{what} must be a file; {target} is a folder.")
    if target.resolve() == store.resolve():
        raise InputError(f"{what} would overwrite the store. Choose another name.")
