"""Tables of runs: for the terminal, for Markdown, for LaTeX and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from remnant.reports.groups import RunGroup, Spread, by_kind, memory_text, order_text, read_groups
from remnant.reports.units import MISSING, bytes_text, count_text, percent_text, seconds_text
from remnant.runs.run_folder import RunFolder, read_run


@dataclass(frozen=True)
class Table:
    """Text in rows; all columns from `first_number` on are numbers."""

    headers: list[str]
    rows: list[list[str]]
    first_number: int


@dataclass(frozen=True)
class _Column:
    header: str
    value: Callable[[RunFolder], float | None]
    text: Callable[[Spread], str]
    is_optional: bool = False  # left out where no run has the value


def with_deviation(spread: Spread) -> str:
    """A percentage over the runs of a group: `72.00 ± 2.83`."""
    mean = percent_text(spread.mean, 2)
    return mean if spread.deviation is None else f"{mean} ± {spread.deviation:.2f}"


def _kept_bytes(run: RunFolder) -> int | None:
    """All that is carried from task to task: the network, the memory and what is beside them."""
    return sum(run.result.kept_bytes.values()) if run.result.kept_bytes else None


def exemplars_per_class(run: RunFolder) -> float | None:
    """How many exemplars a class has at the end, on average."""
    counts = run.result.memory.exemplars_per_class if run.result.memory else []
    return sum(counts) / len(counts) if counts else None


def _predict_flops(run: RunFolder) -> float | None:
    """After the last task, per image."""
    return (run.result.flops_per_image or {}).get("predict")


def passes_over_new(run: RunFolder) -> float | None:
    """How often an image was shown in the task that brought it, on average over tasks."""
    passes = run.result.passes_over_new
    return sum(passes) / len(passes) if passes else None


_COLUMNS = (
    _Column("Avg", lambda run: run.result.average_accuracy, with_deviation),
    _Column("Last", lambda run: run.result.last_accuracy, with_deviation),
    _Column("F", lambda run: run.result.forgetting, with_deviation),
    _Column("Newest", lambda run: run.result.newest, with_deviation, is_optional=True),
    _Column("Top-5", lambda run: run.result.top5_average, with_deviation),
    _Column("Params", lambda run: run.result.parameters, lambda it: count_text(it.mean)),
    _Column("FLOP", _predict_flops, lambda it: count_text(it.mean)),
    _Column(
        "Bytes",
        lambda run: run.result.memory.used_bytes if run.result.memory else None,
        lambda it: f"{it.mean:,.0f}",
    ),
    _Column("Kept", _kept_bytes, lambda it: f"{it.mean:,.0f}", is_optional=True),
    _Column("Per class", exemplars_per_class, lambda it: f"{it.mean:,.0f}"),
    _Column(
        "Images/s", lambda run: run.result.train_images_per_second, lambda it: f"{it.mean:,.0f}"
    ),
    _Column("Seconds", lambda run: run.result.train_seconds, lambda it: f"{it.mean:,.0f}"),
    _Column("Train FLOP", lambda run: run.result.train_flops, lambda it: count_text(it.mean), True),
    _Column("Passes", passes_over_new, lambda it: f"{it.mean:,.1f}", True),
)


def comparison_tables(groups: Sequence[RunGroup]) -> list[Table]:
    """One for runs from scratch, one for those on a pretrained encoder, where there are any."""
    return [comparison_table(kind) for kind in by_kind(groups)]


def comparison_table(groups: Sequence[RunGroup]) -> Table:
    """One row per group: what ran, then mean and deviation of what came out."""
    columns = [
        column
        for column in _COLUMNS
        if not column.is_optional or any(group.spread(column.value) for group in groups)
    ]
    rows = []
    for group in groups:
        row = [group.label, group.first.result.dataset, memory_text(group.first)]
        for column in columns:
            spread = group.spread(column.value)
            row.append(MISSING if spread is None else column.text(spread))
        rows.append([*row, str(len(group.runs))])
    headers = ["Method", "Dataset", "Memory", *(column.header for column in columns), "Runs"]
    return Table(headers, rows, first_number=3)


def numbers_first(table: Table) -> Table:
    """The same table with its words last but for the names, as a narrow screen shows it."""

    def turn(row: list[str]) -> list[str]:
        return [row[0], *row[table.first_number :], *row[1 : table.first_number]]

    return Table(turn(table.headers), [turn(row) for row in table.rows], first_number=1)


def markdown_table(folders: Iterable[Path]) -> str:
    """The comparison of finished runs in `folders` as a Markdown table, or two."""
    return "\n".join(map(to_markdown, comparison_tables(read_groups(folders)[0])))


def latex_table(folders: Iterable[Path]) -> str:
    """The comparison of finished runs in `folders` as a LaTeX tabular (booktabs), or two."""
    return "\n".join(map(to_latex, comparison_tables(read_groups(folders)[0])))


def csv_table(folders: Iterable[Path]) -> str:
    """Every finished run in `folders` as a line of CSV, with plain numbers and no rounding."""
    groups, _ = read_groups(folders)
    headers = ["folder", "group", "recipe", "method", "dataset", "memory", "seed", "order"]
    headers += [column.header for column in _COLUMNS]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(headers)
    for group in groups:
        for run in group.runs:
            result = run.result
            words = [str(run.path), group.label, result.recipe, result.method, result.dataset]
            words += [memory_text(run), result.seed, order_text(run)]
            writer.writerow([*words, *(column.value(run) for column in _COLUMNS)])
    return file.getvalue()


def to_markdown(table: Table) -> str:
    marks = ["---" if index < table.first_number else "---:" for index in range(len(table.headers))]
    lines = [table.headers, marks, *table.rows]
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


def to_latex(table: Table) -> str:
    alignment = "l" * table.first_number + "r" * (len(table.headers) - table.first_number)
    head, *body = (
        " & ".join(_latex_cell(cell) for cell in line) + r" \\"
        for line in (table.headers, *table.rows)
    )
    lines = [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", head, r"\midrule", *body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


_LATEX_ESCAPES = str.maketrans(
    {sign: "\\" + sign for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "×": r"$\times$", "\N{MINUS SIGN}": "$-$", "π": r"$\pi$", "Δ": r"$\Delta$"}
    | {MISSING: "--", "…": r"\dots{}", "\n": " "}
)


def _latex_cell(text: str) -> str:
    return text.translate(_LATEX_ESCAPES)


@dataclass(frozen=True)
class Headline:
    """One number that sums a run up, with what it means."""

    name: str
    value: str
    unit: str
    meaning: str


def headlines(run: RunFolder) -> list[Headline]:
    """The few numbers to look at first; those that the run does not have are left out."""
    result, found = run.result, []
    so_far = "" if result.finished else " (so far)"
    for name, value, meaning in (
        ("Average accuracy", result.average_accuracy, "Mean of the accuracies after each task."),
        ("Last accuracy", result.last_accuracy, "On all classes seen, after the last task."),
    ):
        if value is not None:
            found.append(Headline(name + so_far, percent_text(value), "%", meaning))
    if result.forgetting is not None and run.num_done_tasks > 1:
        meaning = "Mean loss of each earlier task since its best moment; lower is better."
        found.append(Headline("Forgetting", percent_text(result.forgetting), "points", meaning))
    found += _memory_headline(run)
    if result.parameters is not None:
        meaning = "Numbers that the network learned, after the last task."
        found.append(Headline("Parameters", count_text(result.parameters), "", meaning))
    if result.train_flops is not None:
        passes, meaning = passes_over_new(run), "FLOP of all training; no evaluation."
        if passes is not None:
            meaning += f" Each new image was shown {passes:,.1f} times."
        found.append(Headline("Arithmetic", count_text(result.train_flops), "FLOP", meaning))
    if result.train_seconds is not None:
        speed = result.train_images_per_second
        meaning = "Spent training" + (f", at {speed:,.0f} images per second." if speed else ".")
        found.append(Headline("Time", seconds_text(result.train_seconds), "", meaning))
    return found


def _memory_headline(run: RunFolder) -> list[Headline]:
    memory = run.result.memory
    if memory is None or (memory.used_bytes == 0 and not memory.budget_bytes):
        return []
    total = f"{sum(memory.exemplars_per_class):,} exemplars"
    meaning = f"Used by {total}."
    if memory.budget_bytes is not None:
        meaning = f"Used by {total}, of a budget of {bytes_text(memory.budget_bytes)}."
    return [Headline("Memory", bytes_text(memory.used_bytes), "", meaning)]


def terminal_rows(folder: Path) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of the table that ends a run in the terminal."""
    run = read_run(folder)
    rows = [
        [line.name, f"{line.value} {line.unit}".strip(), line.meaning] for line in headlines(run)
    ]
    if run.num_done_tasks > 1:
        steps = [percent_text(value) for value in run.result.accuracies]
        if len(steps) > 10:
            steps = [*steps[:5], "…", *steps[-4:]]
        rows.insert(2, ["After each task", " ".join(steps), "On all classes seen so far, in %."])
    return ["", "value", "meaning"], rows
