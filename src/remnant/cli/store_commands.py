"""Commands over a store: teach it, ask it, look into it, make it forget, take a model out."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from remnant.cli import console
from remnant.errors import InputError

Floats = Annotated[bool, Parameter(name="--float", negative="")]
Csv = Annotated[bool, Parameter(name="--csv", negative="", help="print a line for each answer")]
Yes = Annotated[bool, Parameter(name="--yes", negative="", help="do not ask")]


def learn(
    store: Path,
    folder: Path,
    /,
    *,
    test: Path | None = None,
    budget: str | None = None,
    method: str | None = None,
    image_size: int | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
    accelerator: str | None = None,
    set_: console.Settings = None,
) -> None:
    """Teach a store the classes in a folder; what is not given is chosen for the images.

    Stopped in any way, the same command goes on from the last checkpoint. The store is replaced at
    the very end, whole or not at all.

    Parameters
    ----------
    store
        One file, NAME.remnant; made when missing.
    folder
        Has a sub-folder of images for each class, new or known.
    test
        The same, of images to measure the accuracy with.
    budget
        Memory for the images that are kept: 60KiB/class, 2MiB. Fixed by the first update, as are
        method, image size, seed and what is set.
    method
        A name from `remnant list methods`.
    image_size
        Side in pixels to which images are brought.
    epochs
        Passes over the images and what is remembered.
    batch_size
        Images of a step.
    seed
        Of everything random.
    accelerator
        auto, cpu, cuda or mps.
    """
    from remnant.learner import learn_into_store
    from remnant.learner.summary import store_facts
    from remnant.terminal.store_tables import newest_update

    given = {
        "budget": budget,
        "method": method,
        "image_size": image_size,
        "epochs": epochs,
        "batch_size": batch_size,
        "seed": seed,
        "accelerator": accelerator,
        "options": console.parse_settings(set_, {}) or None,
    }
    parameters = {name: value for name, value in given.items() if value is not None}
    with _guarding(store):
        learner = learn_into_store(store, folder, test=test, **parameters)
    console.out.print(newest_update(store_facts(learner, store)))
    console.suggest("remnant predict", shlex.quote(str(store)), "IMAGE")


def predict(
    store: Path,
    /,
    *files: Path,
    top: Annotated[int, Parameter(name="--top")] = 5,
    as_json: console.Json = False,
    as_csv: Csv = False,
) -> None:
    """Tell the classes of images, best first.

    A file that cannot be read is told on standard error and the others are answered all the same;
    the exit code is then 2.

    Parameters
    ----------
    store
        As `remnant learn` wrote it.
    files
        Images, and folders of them.
    top
        Classes to name for each image.
    """
    if not files:
        raise InputError(f"give at least one image, as in remnant predict {store} new.jpg.")
    if top < 1:
        raise InputError(f"--top must be at least 1; got {top}.")
    if as_json and as_csv:
        raise InputError("give --json or --csv, not both.")
    from remnant.cli.prediction_output import (
        print_as_json,
        print_csv,
        print_lines,
        telling_failures,
    )
    from remnant.learner import Learner
    from remnant.learner.file_predictions import answer_files

    answers = answer_files(Learner.load(store), files, top)
    show = print_csv if as_csv else print_as_json if as_json else print_lines
    if show(telling_failures(answers)) > 0:
        sys.exit(2)


def inspect(
    store: Path,
    /,
    *,
    html: Path | None = None,
    as_json: console.Json = False,
) -> None:
    """Tell what a store knows, what it keeps, and how it came to that.

    Parameters
    ----------
    store
        As `remnant learn` wrote it.
    html
        A page to write, with the images that are kept, as stored and as completed.
    """
    from remnant.learner import Learner
    from remnant.learner.summary import store_facts, write_gallery
    from remnant.terminal.store_tables import class_table, store_lines, update_table

    learner = Learner.load(store)
    if html is not None:
        _check_target("--html", html, store)
        write_gallery(learner, store, html)
    facts = store_facts(learner, store)
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


def forget(store: Path, name: str, /, *, yes: Yes = False) -> None:
    """Remove a class from a store: its images, its row of the classifier, its name.

    Parameters
    ----------
    store
        As `remnant learn` wrote it.
    name
        Of the class.
    """
    from remnant.learner import Learner, forget_in_store

    learner = Learner.load(store)
    is_numbered = not isinstance(learner.classes_.tolist()[0], str)
    label = int(name) if is_numbered and name.removeprefix("-").isdecimal() else name
    learner.forget(label)  # whatever stands against it is told before anybody is asked
    if not yes:
        _confirm(name, store)
    console.out.print(forget_in_store(store, label), markup=False)


def export(store: Path, model: Path, /, *, floats: Floats = False) -> None:
    """Write an ONNX model that gives class probabilities, checked against torch.

    Parameters
    ----------
    store
        As `remnant learn` wrote it.
    model
        The file to write.
    floats
        The model takes floats from 0 to 1, not bytes.
    """
    from remnant.learner import Learner
    from remnant.learner.onnx_export import export as write_model
    from remnant.reports.units import bytes_text

    learner = Learner.load(store)
    _check_target("the model", model, store)
    checked = write_model(learner, model, takes_floats=floats)
    console.out.print(
        f"{model}: {bytes_text(checked.num_bytes)}; on {checked.num_images} images onnxruntime "
        f"gives what torch gives, up to {checked.max_difference:.1e}",
        markup=False,
    )


# ------------------------------------------------------------------------------------------ private


@contextmanager
def _guarding(store: Path) -> Iterator[None]:
    """Tell how to go on when an update is interrupted or the disk is full."""
    missing = [folder for folder in store.absolute().parents if not folder.exists()]
    try:
        yield
    except KeyboardInterrupt:
        again = shlex.join(["remnant", *sys.argv[1:]])
        console.notes.print(f"stopped. The same command goes on: {again}", markup=False)
        sys.exit(130)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise InputError(
            f"{place}{error.strerror or error}. The store is as it was; once this is mended, the "
            "same command goes on."
        ) from None
    finally:
        for empty in missing:
            if empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()


def _confirm(name: str, store: Path) -> None:
    if not sys.stdin.isatty():
        raise InputError(
            f"forgetting {name!r} cannot be undone, and nobody is there to ask. Add --yes."
        )
    console.notes.print(
        f"Forget {name!r} in {store}? This cannot be undone. [y/N] ", end="", markup=False
    )
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        console.notes.print("Nothing was changed.")
        sys.exit(1)


def _check_target(what: str, target: Path, store: Path) -> None:
    if target.is_dir():
        raise InputError(f"{what} is a file to write; {target} is a folder.")
    if target.resolve() == store.resolve():
        raise InputError(f"{what} would take the place of the store. Choose another name.")
