"""Several run folders -> one page that sets them side by side."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from remnant.files import write_text
from remnant.reports.charts.byte_charts import all_kept_bytes, kept_chart, memory_chart
from remnant.reports.charts.canvas import on_white
from remnant.reports.charts.system_charts import curves_chart
from remnant.reports.comparison_tables import settings_table, task_tables
from remnant.reports.embed import inline_svg
from remnant.reports.groups import RunGroup, by_kind, order_text, read_groups, unequal_terms
from remnant.reports.page import Picture, render_page
from remnant.reports.result_tables import comparison_tables, numbers_first, to_latex, to_markdown
from remnant.runs.run_folder import RunFolder


def write_comparison(folders: Sequence[Path], out: Path) -> Path:
    """Write one page that compares the runs among and inside `folders`.

    Raises:
        InputError: A folder holds no run, or no run is finished.
    """
    groups, unfinished = read_groups(folders)
    write_text(out, _comparison_page(groups, unfinished))
    return out


def curves_picture(folders: Sequence[Path]) -> str:
    """The accuracy curves of several runs as an SVG file of its own: dark ink on white.

    Raises:
        InputError: A folder holds no run, or no run is finished.
    """
    return on_white(curves_chart(read_groups(folders)[0]))


def kept_picture(folders: Sequence[Path]) -> str:
    """Average accuracy against memory plus network of several runs, as `curves_picture`.

    Raises:
        InputError: A folder holds no run, or no run is finished.
    """
    return on_white(kept_chart(read_groups(folders)[0]))


def _comparison_page(groups: Sequence[RunGroup], unfinished: Sequence[RunFolder]) -> str:
    tables = comparison_tables(groups)
    runs = [(group, run) for group in groups for run in group.runs]
    return render_page(
        "comparison.html.j2",
        groups=groups,
        num_runs=len(runs),
        unfinished=[run.name for run in unfinished],
        twins=[group.label for group in groups if group.has_twins],
        unequal=unequal_terms(groups),
        tables=[numbers_first(table) for table in tables],
        settings=settings_table(groups),
        task_tables=task_tables(groups),
        pictures=_comparison_pictures(groups),
        runs=[(group.label, run, order_text(run)) for group, run in runs],
        copies=[
            ("Markdown", "\n".join(map(to_markdown, tables))),
            ("LaTeX", "\n".join(map(to_latex, tables))),
        ],
    )


def _comparison_pictures(groups: Sequence[RunGroup]) -> list[Picture]:
    pictures = []
    datasets = dict.fromkeys(group.first.result.dataset for group in groups)
    for dataset, kind in itertools.product(datasets, by_kind(groups)):
        members = [group for group in kind if group.first.result.dataset == dataset]
        if any(len(group.curve()[0]) > 1 for group in members):
            title = f"Accuracy over the stream: {dataset}"
            caption = "On all classes seen so far, after each task."
            if any(len(group.runs) > 1 for group in members):
                caption += " Lines are means, bands one standard deviation over runs."
            pictures.append(
                _drawn(f"curves-{len(pictures)}", title, caption, curves_chart(members))
            )
        if len(members) > 1 and any(group.first.counted_ledger for group in members):
            title, caption = f"Accuracy for bytes: {dataset}", "Higher and further left is better."
            pictures.append(_drawn(f"bytes-{len(pictures)}", title, caption, memory_chart(members)))
        if len(members) > 1 and all(all_kept_bytes(group.first) is not None for group in members):
            title = f"Accuracy for all that is kept: {dataset}"
            caption = "Memory, and four bytes for each parameter of the network at the end."
            pictures.append(_drawn(f"kept-{len(pictures)}", title, caption, kept_chart(members)))
    return pictures


def _drawn(name: str, title: str, caption: str, svg: str) -> Picture:
    markup = inline_svg(svg.encode(), name, f"{title}. {caption}")
    return Picture(name, title, caption, svg=markup)
