"""Tables and lines for a terminal of 80 columns or more; printing is left to the caller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Any

from rich.table import Table

from remnant.errors import amount
from remnant.reports import terminal_rows
from remnant.reports.codec_page import FRONT_MEANING
from remnant.reports.groups import read_groups
from remnant.reports.result_tables import Table as TextTable
from remnant.reports.result_tables import comparison_tables
from remnant.reports.units import bytes_text, count_text, decibels_text, hours_text

Rows = list[dict[str, Any]]
_WIDTH_FOR_MEANINGS = 110  # columns; a narrower terminal shows the numbers without explanations
_VERBS = ("encode", "decode")
_SWEEP_COLUMNS = ("Method", "Avg", "Last", "F", "Bytes", "Train FLOP", "Passes", "Runs")


def table_of(rows: Rows) -> Table:
    """One line per row; the first column, which holds the names, is never cut."""
    words = {True: "yes", False: "no"}
    table = Table(*rows[0], box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*(words[one] if isinstance(one, bool) else str(one) for one in row.values()))
    return table


def recipe_lines(rows: Rows, width: int) -> Iterator[str]:
    """The names of recipes, grouped by their description up to its first colon."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(row["about"].partition(":")[0], []).append(row["name"])
    for about, names in groups.items():
        yield from wrap(about, max(40, width))
        for line in wrap("  ".join(names), max(40, width) - 2, break_on_hyphens=False):
            yield f"  {line}"


def dataset_rows(rows: Rows) -> Rows:
    """The columns of `list_datasets` that fit a terminal."""
    return [
        {
            "name": row["name"],
            "classes": row["classes"] or "?",
            "px": row["image_size"],
            "train/class": row["train_per_class"] or "?",
            "test/class": row["test_per_class"] or "?",
            "here": row["present"],
            "from": _describe_source(row),
        }
        for row in rows
    ]


def _describe_source(row: dict[str, Any]) -> str:
    if row["download_bytes"]:
        return f"{row['download_bytes'] / (1 << 20):.0f} MiB download"
    return row["source"].removeprefix("https://").partition(" (")[0]


def plan_lines(plan: dict[str, Any]) -> Iterator[str]:
    """What `remnant show` prints below the config."""
    flops = plan["flops_per_image"]
    yield f"tasks        {_describe_sizes(plan['task_sizes'])}"
    at_most = "at most " if plan["cuts_network"] else ""
    yield f"parameters   {at_most}{plan['parameters']:,} after the last task"
    yield (
        f"arithmetic   {flops['train'] / 1e9:.3f} GFLOP per training image, "
        f"{flops['predict'] / 1e9:.3f} per prediction"
    )
    yield (
        f"whole run    {plan['train_images']:,} training images, "
        f"{plan['train_flops'] / 1e12:,.2f} TFLOP"
    )
    if "hours" in plan:
        yield f"time         {hours_text(plan['hours'])} on one idle core of this machine"
    if not plan["memory_plan"]:
        yield "memory       none"
    label = "memory"
    tasks = enumerate(plan["memory_plan"], start=1)
    for _, group in groupby(tasks, key=lambda item: item[1]["exemplars_per_class"]):
        yield f"{label:12s} {_describe_memory(list(group))}"
        label = ""
    yield f"kept         {at_most}{_describe_kept(plan['kept_bytes'])}"


def settled_lines(given: dict[str, Any], settled: dict[str, Any]) -> Iterator[str]:
    """What "auto" came to."""
    memory = settled["memory"]
    if given["memory"] != memory:
        yield f"quality      {memory['codec']['quality']}, by the rule for {memory['budget']}"


def _describe_kept(kept: dict[str, int]) -> str:
    """All that is carried from task to task, at the end."""
    parts = [f"{name.replace('_', ' ')} {bytes_text(kept[name])}" for name in kept]
    return f"{bytes_text(sum(kept.values()))} at the end: {', '.join(parts)}"


def _describe_sizes(sizes: list[int]) -> str:
    if len(set(sizes)) == 1:
        return f"{len(sizes)} of {sizes[0]} classes"
    return f"{len(sizes)} of {', '.join(str(size) for size in sizes)} classes"


def _describe_memory(tasks: list[tuple[int, dict[str, Any]]]) -> str:
    """The memory after consecutive tasks with the same number of exemplars per class."""
    (first, _), (last, row) = tasks[0], tasks[-1]
    when = f"after task {first}" + (f" to {last}" if last > first else "")
    if row["exemplars_per_class"] is None:
        return f"{when}: as many exemplars as fit in {row['budget_bytes']:,} bytes"
    each = f"{row['exemplars_per_class']:,} per class of {row['bytes_per_exemplar']:,} bytes"
    total = f"{row['total_bytes']:,} of {row['budget_bytes']:,} bytes"
    return f"{when}: {each}" + (f", {total} at the end" if last > first else f", {total}")


def codec_table(plan: dict[str, Any]) -> Table:
    """The result of `remnant plan`: one line per setting, the Pareto front marked."""
    table = Table("", "setting", box=None, pad_edge=False, collapse_padding=True)
    for title in ("bytes", "per class", "PSNR", "pixels", "encode", "decode"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in plan["rows"]:
        table.add_row(
            "*" if row["is_on_front"] else "",
            row["label"],
            f"{row['bytes_per_exemplar']:,.1f}",
            f"{row['exemplars_per_class']:,}",
            decibels_text(row["psnr"]),
            f"{100 * row['stored_ratio']:.0f} %",
            f"{row['encode_microseconds']:,.0f} µs",
            f"{row['decode_microseconds']:,.0f} µs",
        )
    return table


def codec_lines(plan: dict[str, Any], width: int) -> Iterator[str]:
    """Notes below the table of `codec_table`."""
    shape = " x ".join(str(length) for length in plan["image_shape"])
    for paragraph in (
        f"{plan['sample']:,} training images of {plan['dataset']}, {shape}; "
        f"{amount(plan['budget']['bytes_per_class'], 'byte')} for each of "
        f"{plan['num_classes']:,} classes, "
        f"which have {plan['images_per_class']:,} images to choose from.",
        "Bytes include positions and lengths. PSNR, in dB, is over the stored pixels. Times are "
        "per exemplar on one processor core.",
        FRONT_MEANING,
        *(f"Left out: {label}. {reason}" for label, reason in plan["skipped"].items()),
    ):
        yield from wrap(paragraph, max(40, width))


def run_table(folder: Path, width: int) -> Table:
    """The results of a run, with explanations where there is room."""
    _, rows = terminal_rows(folder)
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value, meaning in rows:
        table.add_row(name, value, *([f"[dim]{meaning}"] if width >= _WIDTH_FOR_MEANINGS else []))
    return table


def sweep_tables(folders: Sequence[Path]) -> list[Table]:
    """Mean and standard deviation over runs that differ in seed or order alone.

    Runs on a pretrained encoder have a table of their own.
    """
    return [_sweep_table(compared) for compared in comparison_tables(read_groups(folders)[0])]


def _sweep_table(compared: TextTable) -> Table:
    wanted = [name for name in _SWEEP_COLUMNS if name in compared.headers]
    table = Table(box=None, pad_edge=False)
    for name in wanted:
        table.add_column(name, justify="left" if name == "Method" else "right")
    for row in compared.rows:
        table.add_row(*(row[compared.headers.index(name)] for name in wanted))
    return table


def text_table(table: TextTable) -> Table:
    """A table of a report for the terminal: numbers to the right, names never cut."""
    drawn = Table(box=None, pad_edge=False)
    for index, header in enumerate(table.headers):
        is_number = index >= table.first_number
        drawn.add_column(header, justify="right" if is_number else "left", no_wrap=is_number)
    for row in table.rows:
        drawn.add_row(*row)
    return drawn


def forecast_table(forecasts: Sequence[Any], gpu: str, width: int) -> Table:
    """What `remnant reproduce --dry-run` prints: one line per run, or two where a name is long."""
    table = Table(box=None, pad_edge=False)
    table.add_column("run", overflow="fold")  # gives way to the numbers, but is never cut
    table.add_column("state", no_wrap=True)
    titles = ["images", "FLOP", "here", gpu.upper()]
    titles += ["GPU memory"] if width >= _WIDTH_FOR_MEANINGS else []
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for one in forecasts:
        cells = [count_text(one.images), count_text(one.flops), hours_text(one.hours or 0.0),
                 hours_text(one.gpu_hours), bytes_text(one.gpu_bytes)]  # fmt: skip
        table.add_row(one.run.name, one.state, *cells[: len(titles)])
    return table


def bench_lines(figures: dict[str, Any]) -> Iterator[str]:
    """The results of `remnant bench` as lines of text."""
    yield f"matrix product   {figures['gemm_gflops']:.0f} GFLOP/s on {figures['threads']} threads"
    for name, label in (
        ("step_paper", "step, paper size"),
        ("step_mini", "step, mini size"),
        ("resnet32", "step, ResNet-32"),
        ("resnet18", "step, ResNet-18"),
    ):
        step = figures[name]
        line = (
            f"{label:16s} {step['images_per_second']:.0f} images/s, "
            f"{step['gflop_per_image']:.2f} GFLOP per image, "
            f"{step['fraction_of_gemm']:.2f} of the matrix product's speed"
        )
        if "speedup_over_literal" in step:
            line += f", {step['speedup_over_literal']:.2f} times the literal step"
        yield line
    memory = figures["step_paper"]
    yield (
        f"memory           {memory['peak_memory_bytes'] / 1e6:,.0f} MB for the tensors of a step "
        f"at paper size, {memory['peak_memory_over_literal']:.2f} of the literal step's"
    )
    for name in ("predict", "complete", "augment"):
        yield f"{name:16s} {figures[f'{name}_images_per_second']:,.0f} images/s"
    for name, codec in figures["codecs"].items():
        encode, decode = (f"{codec[f'{verb}_exemplars_per_second']:,.0f}" for verb in _VERBS)
        yield f"{name:16s} {encode} exemplars/s to encode, {decode} to decode"
    checkpoint = figures["checkpoint"]
    yield (
        f"checkpoint       {checkpoint['seconds']:.2f} s for {checkpoint['megabytes']:.0f} MB, "
        f"{checkpoint['megabytes_per_second']:,.0f} MB/s"
    )
    yield f"around the step  {100 * figures['overhead_fraction']:.1f} % of training time"
