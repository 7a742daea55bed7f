"""What a classifier is, knows and cannot do, as one page of Markdown to go with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from remnant._version import __version__
from remnant.files import write_text
from remnant.learner.learner_state import LearnerState
from remnant.learner.reliability import measure_reliability
from remnant.learner.scoring import ScoredFolder, score_folder
from remnant.learner.summary import store_facts, write_gallery
from remnant.reports.units import bytes_text


def card_paths(store: Path) -> tuple[Path, Path]:
    """The card and the page beside a store: NAME.card.md and NAME.html."""
    return store.with_suffix(".card.md"), store.with_suffix(".html")


def write_card(state: LearnerState, store: Path, test: Path | None) -> tuple[Path, Path]:
    """Write the card and the page of a store; with `test`, scored on that folder."""
    scored = None if test is None else score_folder(state, test)
    card, page = card_paths(store)
    write_text(card, card_text(state, store, scored))
    write_gallery(state, store, page, scored)
    return card, page


def card_text(state: LearnerState, store: Path, scored: ScoredFolder | None) -> str:
    facts = store_facts(state, store)
    parts = [f"# {store.name}", *_about(state, facts), *_accuracy(facts, scored)]
    parts += [*_reliability(state, scored), *_classes(facts, scored), *_confusion(scored)]
    parts += [*_updates(facts), *_limits(state)]
    return "\n".join(parts) + "\n"


def _about(state: LearnerState, facts: dict[str, Any]) -> Iterator[str]:
    encoder = getattr(state.config.method, "encoder", None)
    network = "trained from scratch on these images"
    if encoder is not None:
        network = f"the frozen encoder {encoder.name}, licence {encoder.licence}"
        if state.method.trains:
            network = (
                f"the encoder {encoder.name}, its upper layers tuned; licence {encoder.licence}"
            )
    seen = sum(one.get("images", 0) for one in facts["history"])
    yield ""
    count = len(facts["classes"])
    yield f"An image classifier of {count:,} classes, written by remnant {__version__}."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| method | {facts['method']}, {network} |"
    side = facts["image_size"]
    yield f"| images | {side} x {side} px; {seen:,} were learned from |"
    if facts["memory"] is not None:
        memory = facts["memory"]
        yield (
            f"| kept | {memory['exemplars']:,} images as {memory['codec']}, "
            f"{bytes_text(memory['used_bytes'])} of {bytes_text(memory['budget_bytes'])} |"
        )
    yield f"| file | {bytes_text(facts['file_bytes'])} |"
    yield f"| digest | `{state.digest()}` |"


def _accuracy(facts: dict[str, Any], scored: ScoredFolder | None) -> Iterator[str]:
    yield ""
    yield "## Accuracy"
    yield ""
    if scored is not None:
        total = int(scored.confusion.sum())
        yield f"{scored.accuracy:.1f} % of {total:,} test images are correct."
        yield from (f"\nNote: {note}" for note in scored.notes)
        return
    measured = [one for one in facts["history"] if one.get("accuracy") is not None]
    if not measured:
        yield "It was never measured: no test images were given."
        return
    last = measured[-1]
    what = "test" if last.get("measured_on") == "test" else "held-out"
    count = last.get("measured_images")
    yield f"{last['accuracy']:.1f} % of {f'{count:,} ' if count else ''}{what} images are correct."


def _reliability(state: LearnerState, scored: ScoredFolder | None) -> Iterator[str]:
    """On the test images, or else on those that the method held out."""
    if scored is not None:
        found, source = scored.reliability, "test"
    elif (own := state.method.held_out()) is not None:
        labels, scores = own
        found = measure_reliability(scores.softmax(dim=1).numpy(), labels.numpy())
        source = "held-out"
    else:
        return
    yield ""
    yield "## Reliability"
    yield ""
    yield f"On {source} images, probabilities are on average"
    yield f"{100 * found.error:.1f} points from the share that is correct."
    yield ""
    yield "| probability | images | mean probability | correct |"
    yield "|---|---|---|---|"
    for low, high, count, said, right in found.rows:
        span = f"{100 * low:g} to {100 * high:g} %"
        yield f"| {span} | {count:,} | {100 * said:.1f} % | {100 * right:.1f} % |"


_LARGEST_TABLE = 20  # classes; the page shows more


def _confusion(scored: ScoredFolder | None) -> Iterator[str]:
    if scored is None or len(scored.classes) > _LARGEST_TABLE:
        return
    names = [_cell(name) for name in scored.classes]
    yield ""
    yield "## Confusion"
    yield ""
    yield "Test images of the class of a row, by predicted class."
    yield ""
    yield f"| | {' | '.join(names)} |"
    yield f"|---|{'---|' * len(names)}"
    for name, row in zip(names, scored.confusion.tolist(), strict=True):
        yield f"| {name} | {' | '.join(map(str, row))} |"


def _cell(name: object) -> str:
    return str(name).replace("|", "\\|").replace("\n", " ")


def _classes(facts: dict[str, Any], scored: ScoredFolder | None) -> Iterator[str]:
    rows = {} if scored is None else {name: rest for name, *rest in scored.class_rows()}
    yield ""
    yield "## Classes"
    yield ""
    yield "| class | exemplars | test images | correct | most often predicted as |"
    yield "|---|---|---|---|---|"
    for row in facts["classes"]:
        count, share, taken = rows.get(row["name"], ("", None, ""))
        right = "" if share is None else f"{share:.1f} %"
        cells = [_cell(row["name"]), f"{row['exemplars']:,}", str(count), right, _cell(taken)]
        yield f"| {' | '.join(cells)} |"


def _updates(facts: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield "## History"
    yield ""
    for one in facts["history"]:
        if "forgotten_classes" in one:
            yield f"- {one['when']}: {one['forgotten_classes']} class forgotten"
        else:
            new = ", ".join(str(name) for name in one["classes"]) or "no new class"
            yield f"- {one['when']}: {new}; {one.get('images', 0):,} images"


def _limits(state: LearnerState) -> Iterator[str]:
    method = state.method
    is_calibrated = hasattr(method, "recognise") or state.calibration is not None
    yield ""
    yield "## Limits"
    yield ""
    yield "- Every image gets one of these classes, also one that shows none of them" + (
        ", unless `--reject` is given." if is_calibrated else "."
    )
    yield "- Accuracy holds for images like those it was measured on."
    if method.forgets_exactly:
        yield "- A forgotten class leaves no trace in the classifier."
    else:
        yield "- A forgotten class leaves its trace in weights that it helped to train."
    if is_calibrated:
        yield "- Probabilities are calibrated on held-out images of the same kind."
    else:
        yield "- Probabilities are not calibrated."
