"""A store as text and tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from remnant.errors import amount
from remnant.reports.units import MISSING, bytes_text, count_text, percent_text, seconds_text
from remnant.terminal.visible import visible

Facts = dict[str, Any]  # from `learner.summary.store_facts`
_NAMED = 20  # classes of an update; of more, only the number is shown


def newest_update(facts: Facts) -> Table:
    """The result of the newest update."""
    update, table = facts["history"][-1], Table(box=None, show_header=False, pad_edge=False)
    rows = {
        "New classes": _names(update["classes"]) or "none",
        "More images of": _names(update["known_classes"]),
        "Classes": f"{len(facts['classes']):,}",
        "Images": f"{update['images']:,}" if update.get("images") else "",
        "Accuracy": _measured(update),
        "Old classes": _old_classes(update),
        "Memory": _memory(facts),
        "Store": f"{facts['store']}, {bytes_text(facts['file_bytes'])}",
        "Time": seconds_text(update["seconds"]),
    }
    for title, value in rows.items():
        if value:
            table.add_row(title, Text(visible(value)))
    return table


def store_lines(facts: Facts) -> Iterator[str]:
    """A store in two lines, and a third if something is unfinished."""
    store, size = visible(facts["store"]), bytes_text(facts["file_bytes"])
    yield (
        f"{store}: {amount(len(facts['classes']), 'class')}, {size}; "
        f"{facts['method']}, {facts['image_size']} px, {count_text(facts['parameters'])} weights"
    )
    yield f"memory: {_memory(facts)}"
    if facts["is_update_unfinished"]:
        yield "An update is running or was stopped; if stopped, run the same command again."


def class_table(facts: Facts) -> Table:
    """Every class with its exemplars and bytes."""
    table = Table("class", box=None, pad_edge=False)
    for title in ("exemplars", "bytes"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in facts["classes"]:
        table.add_row(Text(visible(row["name"])), f"{row['exemplars']:,}", f"{row['bytes']:,}")
    return table


def score_table(rows: list[tuple[Any, int, float, str]]) -> Table:
    """Every class with its images, its accuracy and what it is most often predicted as."""
    table = Table("class", box=None, pad_edge=False)
    for title in ("images", "right"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("most often predicted as")
    for name, count, share, taken in rows:
        right = f"{percent_text(share)} %"
        table.add_row(Text(visible(name)), f"{count:,}", right, Text(visible(taken)))
    return table


def difference_table(rows: list[tuple[str, str, str]], one: str, other: str) -> Table:
    table = Table("", escape(visible(one)), escape(visible(other)), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table


def update_table(facts: Facts) -> Table:
    """Every update, oldest first."""
    table = Table("update", "date", "classes", box=None, pad_edge=False)
    for title in ("images", "accuracy", "memory"):
        table.add_column(title, justify="right", no_wrap=True)
    for number, one in enumerate(facts["history"], start=1):
        if "forgotten_classes" in one:
            gone = f"{one['forgotten_classes']} forgotten"
            table.add_row(str(number), Text(visible(one["when"])), gone)
            continue
        words = [_names(one["classes"])]
        if one["known_classes"]:
            words.append(f"more of {_names(one['known_classes'])}")
        table.add_row(
            str(number),
            Text(visible(one["when"])),
            Text("; ".join(filter(None, words))),
            f"{one['images']:,}" if one.get("images") else MISSING,
            _accuracy(one),
            bytes_text(one["memory_bytes"]),
        )
    return table


def _names(names: list[Any]) -> str:
    shown = ", ".join(visible(name) for name in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED:,} more" if len(names) > _NAMED else shown


def _accuracy(update: dict[str, Any]) -> str:
    value = update["accuracy"]
    return MISSING if value is None else f"{percent_text(value)} %"


def _measured(update: dict[str, Any]) -> str:
    if update["accuracy"] is None:
        return ""
    on = update.get("measured_on")
    if on is None:  # written by an earlier version
        return _accuracy(update)
    what = "test" if on == "test" else "held-out"
    return f"{_accuracy(update)} of {amount(update['measured_images'], f'{what} image')}"


def _old_classes(update: dict[str, Any]) -> str:
    """Means before and after, and the class that lost most."""
    before = dict(map(tuple, update.get("class_accuracy_before") or ()))
    now = dict(map(tuple, update.get("class_accuracy") or ()))
    both = [name for name in before if name in now]
    if not both:
        return ""
    means = [sum(shares[name] for name in both) / len(both) for shares in (before, now)]
    text = f"{percent_text(means[0])} % before, {percent_text(means[1])} % now"
    worst = min(both, key=lambda name: now[name] - before[name])
    if now[worst] < before[worst]:
        fall = f"{percent_text(before[worst])} to {percent_text(now[worst])} %"
        text += f"; most lost by {visible(worst)}, {fall}"
    return text + (" (of their exemplars)" if "exemplars" in update["measured_on"] else "")


def _memory(facts: Facts) -> str:
    memory = facts["memory"]
    if memory is None:
        return f"none: {facts['method']} keeps no images"
    return (
        f"{bytes_text(memory['used_bytes'])} of {bytes_text(memory['budget_bytes'])}: "
        f"{amount(memory['exemplars'], 'exemplar')} as {memory['codec']}"
    )
