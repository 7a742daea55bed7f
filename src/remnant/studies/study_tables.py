"""The tables of a study: printed beside measured, verdicts, and what each row cost."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from remnant.recipes import count_trials
from remnant.reports.groups import Spread, memory_text
from remnant.reports.result_tables import Table, exemplars_per_class, to_latex, to_markdown
from remnant.reports.units import MISSING, bytes_text, count_text, percent_text
from remnant.runs.run_folder import RunFolder
from remnant.studies.evidence import Cell, Difference, Evidence, Judgement, difference
from remnant.studies.study import LAST, LEDGER, NEWEST, Column, Metric, Row

_CSV_HEADERS = (
    "study", "scale", "row", "column", "metric", "printed", "measured", "deviation", "runs",
    "against", "pairs", "difference", "low", "high",
)  # fmt: skip


_BF16 = "bf16-mixed"


def number_text(value: float | None, metric: Metric) -> str:
    if value is None:
        return MISSING
    return percent_text(value, 2) if metric.is_accuracy else f"{value:.2f}"


def spread_text(spread: Spread | None, metric: Metric) -> str:
    if spread is None:
        return MISSING
    mean = number_text(spread.mean, metric)
    if spread.deviation is None:
        return mean
    deviation = f"{spread.deviation:.2f}"
    return mean if deviation == "0.00" and not metric.is_accuracy else f"{mean} ± {deviation}"


def difference_text(found: Difference | None) -> str:
    """A difference with half of its 95 % interval."""
    if found is None:
        return MISSING
    if found.margin is None:
        return f"{found.mean:+.2f}"
    return f"{found.mean:+.2f} ± {found.margin:.2f}"


def key_metric(evidence: Evidence) -> Metric:
    """The metric whose difference stands beside every row."""
    return LAST if LAST in evidence.study.metrics else evidence.study.metrics[0]


def rival_of(evidence: Evidence, row: Row) -> Row | None:
    """The row that a row is compared with, where it is part of the table."""
    return next((one for one in evidence.rows if one.name == row.against), None)


def result_table(evidence: Evidence, column: Column) -> Table:
    """One setting of the study: every system, printed and measured."""
    metrics, key = evidence.study.metrics, key_metric(evidence)
    printed = [
        metric
        for metric in metrics
        if any(evidence.cells[row.name, column.name].printed(metric) for row in evidence.rows)
    ]
    shown = metrics if NEWEST in metrics or key is not LAST else (*metrics, NEWEST)
    headers = ["System"]
    headers += [f"{metric.title}, reported" for metric in printed]
    headers += [metric.title for metric in shown] + [f"Δ {key.title} (vs)", "Runs"]
    rows = []
    for row in evidence.rows:
        cell = evidence.cells[row.name, column.name]
        line = [row.label]
        line += [number_text(cell.printed(metric), metric) for metric in printed]
        line += [spread_text(cell.measured(metric), metric) for metric in shown]
        rows.append([*line, _against_text(evidence, cell, key), str(len(cell.runs) or MISSING)])
    return Table(headers, rows, first_number=1)


def _against_text(evidence: Evidence, cell: Cell, key: Metric) -> str:
    rival = rival_of(evidence, cell.row)
    if rival is None:
        return MISSING
    found = difference(cell, evidence.cells[rival.name, cell.column.name], key)
    if found is None:
        return MISSING
    pairs = ""
    if found.count < len(cell.runs):
        pairs = ", one pair" if found.count == 1 else f", {found.count} pairs"
    return f"{difference_text(found)} ({rival.short or rival.label}{pairs})"


def verdict_table(judgements: Sequence[Judgement]) -> Table:
    """Every claim with what was printed, what was measured, and what follows."""
    rows = [
        [
            one.claim.text,
            one.column.title,
            one.claim.metric.title,
            one.rival,
            MISSING if one.printed is None else f"{one.printed:+.2f}",
            difference_text(one.measured),
            verdict_text(one),
        ]
        for one in judgements
    ]
    headers = ["Claim", "Setting", "By", "Against", "Reported", "Measured", "Verdict"]
    return Table(headers, rows, first_number=4)


def verdict_text(judgement: Judgement) -> str:
    """The verdict, and whether a single run stands behind it."""
    found = judgement.measured
    return judgement.verdict + (", one run" if found is not None and found.is_over_images else "")


def cost_table(evidence: Evidence) -> Table:
    """What every run took, where it ran and how much it kept."""
    rows = [
        [
            run.name,
            MISSING if run.result.seed is None else str(run.result.seed),
            memory_text(run),
            _rounded(exemplars_per_class(run)),
            _amount(run.result.parameters),
            _amount(run.result.train_flops),
            _passes(run),
            _kept(run),
            _rounded(run.result.train_seconds),
            str(count_trials().get(run.result.method or "", 0)),
            _precision(run),
            str(run.environment.get("commit") or MISSING),
            machine_text(run),
        ]
        for run in evidence.runs
    ]
    headers = [
        "Run", "Seed", "Memory", "Per class", "Parameters", "FLOP", "Passes", "Kept", "Seconds",
        "Trials", "Precision", "Commit", "Machine",
    ]  # fmt: skip
    return Table(headers, rows, first_number=len(headers))


def short_table(evidence: Evidence, column: Column) -> Table:
    """The same for a terminal: the numbers of a row in two cells, or one where none is printed."""
    metrics, key = _few(evidence.study.metrics), key_metric(evidence)
    cells = [evidence.cells[row.name, column.name] for row in evidence.rows]
    printed = [[cell.printed(metric) for metric in metrics] for cell in cells]
    has_printed = any(value is not None for values in printed for value in values)
    rows = []
    for cell, values in zip(cells, printed, strict=True):
        spreads = [cell.measured(metric) for metric in metrics]
        means = [None if spread is None else spread.mean for spread in spreads]
        rival = rival_of(evidence, cell.row)
        gap = None
        if rival is not None:
            gap = difference(cell, evidence.cells[rival.name, column.name], key)
        numbers = [_joined(one, metrics) for one in ([values] if has_printed else []) + [means]]
        rows.append([cell.row.label, *numbers, difference_text(gap)])
    headers = [" / ".join(metric.title for metric in metrics)]
    headers += ["reported"] if has_printed else []
    return Table([*headers, "measured", f"Δ {key.title}"], rows, first_number=1)


def _few(metrics: Sequence[Metric]) -> list[Metric]:
    """Without bytes, for which a terminal has no room."""
    return [metric for metric in metrics if metric not in LEDGER]


def _joined(values: Sequence[float | None], metrics: Sequence[Metric]) -> str:
    pairs = zip(values, metrics, strict=True)
    return " / ".join(number_text(value, metric) for value, metric in pairs)


def short_verdicts(judgements: Sequence[Judgement]) -> Table:
    """The claims for a terminal."""
    rows = [
        [
            one.claim.text,
            MISSING if one.printed is None else f"{one.printed:+.1f}",
            difference_text(one.measured),
            verdict_text(one),
        ]
        for one in judgements
    ]
    return Table(["claim", "reported", "measured", "verdict"], rows, first_number=1)


def machine_text(run: RunFolder) -> str:
    accelerators = run.environment.get("accelerators") or []
    count, processor = run.environment.get("cores", "?"), run.environment.get("processor", "?")
    cores = f"{count} {'core' if count == 1 else 'cores'} of {processor}"
    return ", ".join([*accelerators, cores])


def precision_text(evidence: Evidence) -> str:
    """Which systems were trained in bf16, with all seeds or some, in words; "" if none were."""
    shares = {
        key: [_precision(run) == _BF16 for run in cell.runs.values()]
        for key, cell in evidence.cells.items()
        if cell.runs
    }
    if len(shares) > 1 and all(all(share) for share in shares.values()):
        return "All trained in bf16."
    whole = _cells_text(evidence, [key for key, share in shares.items() if all(share)])
    part = [key for key, share in shares.items() if any(share) and not all(share)]
    parts = [f"Trained in bf16: {whole}."] if whole else []
    parts += [f"In bf16 with some seeds only: {_cells_text(evidence, part)}."] if part else []
    return " ".join(parts)


def _cells_text(evidence: Evidence, keys: Sequence[tuple[str, str]]) -> str:
    """Rows by their labels; where there are several columns, with those that are meant."""
    titles: dict[str, list[str]] = {}
    for key in keys:
        cell = evidence.cells[key]
        titles.setdefault(cell.row.label, []).append(cell.column.title)
    if len(evidence.columns) == 1:
        return "; ".join(titles)
    every = len(evidence.columns)
    return "; ".join(
        label if len(found) == every else f"{label} ({', '.join(found)})"
        for label, found in titles.items()
    )


def _precision(run: RunFolder) -> str:
    return str((run.environment.get("acceleration") or {}).get("precision") or MISSING)


def trials_text(evidence: Evidence) -> str:
    """How many settings of every method of a study were tried before, in words."""
    known = count_trials()
    methods = sorted({run.result.method or "" for run in evidence.runs})
    counts = ", ".join(f"{name} {known.get(name, 0)}" for name in methods)
    return f"Settings tried on held-out images: {counts}."


def _passes(run: RunFolder) -> str:
    """How often an image of the last task was shown while it was new."""
    return f"{run.result.passes_over_new[-1]:.1f}" if run.result.passes_over_new else MISSING


def _kept(run: RunFolder) -> str:
    """All bytes that are carried from task to task: memory, network and the rest."""
    return bytes_text(sum(run.result.kept_bytes.values())) if run.result.kept_bytes else MISSING


def _amount(value: float | None) -> str:
    return MISSING if value is None else count_text(value)


def _rounded(value: float | None) -> str:
    return MISSING if value is None else f"{value:,.0f}"


def study_csv(evidence: Evidence) -> str:
    """Every number of the study, one per line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV_HEADERS)
    for cell in evidence.cells.values():
        rival = rival_of(evidence, cell.row)
        for metric in dict.fromkeys((*evidence.study.metrics, NEWEST)):
            spread, printed = cell.measured(metric), cell.printed(metric)
            found = None
            if rival is not None:
                found = difference(cell, evidence.cells[rival.name, cell.column.name], metric)
            writer.writerow(
                [
                    evidence.study.name,
                    evidence.scale,
                    cell.row.name,
                    cell.column.name,
                    metric.name,
                    _plain(printed),
                    _plain(spread and spread.mean),
                    _plain(spread and spread.deviation),
                    len(cell.runs),
                    rival.name if rival and found else "",
                    found.count if found else "",
                    _plain(found and found.mean),
                    _plain(found.low if found and found.margin is not None else None),
                    _plain(found.high if found and found.margin is not None else None),
                ]
            )
    return text.getvalue()


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def study_latex(evidence: Evidence) -> str:
    """One tabular per setting."""
    return "\n".join(
        f"% {evidence.study.title}, {column.title}\n{to_latex(result_table(evidence, column))}"
        for column in evidence.columns
    )


def study_markdown(evidence: Evidence, terms: str, command: str) -> str:
    """The study as text: tables, verdicts, the command that makes it and what the runs took.

    `terms` are sentences on what is equal for all rows, and on seeds.
    """
    study = evidence.study
    parts = [f"# {study.title}", f"{study.question} {_source_text(evidence)} {terms}"]
    for column in evidence.columns:
        parts += [f"## {column.title}", to_markdown(result_table(evidence, column)).rstrip()]
    parts += [study.note] if study.note else []
    if judgements := evidence.judgements():
        parts += ["## Claims", to_markdown(verdict_table(judgements)).rstrip()]
    parts += ["## Runs", f"`{command}`"]
    if evidence.runs:
        parts += [to_markdown(cost_table(evidence)).rstrip(), trials_text(evidence)]
    parts += [text] if (text := precision_text(evidence)) else []
    return "\n\n".join(parts) + "\n"


def _source_text(evidence: Evidence) -> str:
    where = evidence.study.source
    printed = f"Reported: {where} of the paper. " if where else ""
    return f"{printed}Scale: {evidence.scale}."
