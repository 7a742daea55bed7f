"""Fill the generated parts of the documents: `python -m benchmarks.write_results [RUNS]`.

A part stands between two comments. From run folders, below RUNS or kept in docs/runs:
    <!-- runs: NAME ... -->         the table of these runs, up to <!-- /runs -->
    <!-- measured: NAME ... -->     within a line: their Avg / Last / F, up to <!-- / -->
    <!-- arms -->                   what was tried for the flagship (arms.py), up to <!-- /arms -->
From studies, as far as their runs are in docs/runs:
    <!-- study: NAME SCALE -->      its tables and verdicts, up to <!-- /study -->
    <!-- figure: NAME SCALE -->     its figures, up to <!-- /figure -->
    <!-- claims: NAME ... -->       the claims of studies, with a verdict at every scale
From the presets:
    <!-- published: PRESET ... -->  the table of what others report, up to <!-- /published -->
    <!-- printed: RECIPE ... -->    within a line: what [bimae] prints, up to <!-- / -->
Within a line one number can be chosen: <!-- printed: last RECIPE ... -->.

What a row needs of a run (config, environment, result) is copied to docs/runs, so that `remnant
report docs/runs/NAME ...` says the same for ever, and its numbers to recipes/measured.json. Runs
whose pictures are a figure of the paper are kept with them. A part that names a run which is not to
be found stays as it is.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.arms import arms_table
from remnant.config import RunConfig
from remnant.files import write_bytes, write_json
from remnant.methods import METHODS
from remnant.planning.run_estimate import kept_beside_memory
from remnant.recipes import PRESETS, PROTOCOLS, RECIPES, Published
from remnant.recipes.presets import SOURCES
from remnant.recipes.recipe import MEASURED, TRIALS
from remnant.reports.charts.canvas import on_white
from remnant.reports.groups import memory_text
from remnant.reports.result_tables import Table, exemplars_per_class, to_markdown
from remnant.reports.units import MISSING, count_text, percent_text
from remnant.runs.drawings import DRAWINGS
from remnant.runs.run_folder import RECONSTRUCTIONS, RunFolder, is_finished, read_run
from remnant.studies import STUDIES, StudyScale, find_study
from remnant.studies.evidence import Evidence, Judgement, printed_gap
from remnant.studies.study_figures import Figure, draw_figures
from remnant.studies.study_folder import StudyFolder, StudyRequest
from remnant.studies.study_page import study_command
from remnant.studies.study_runs import runs_of
from remnant.studies.study_tables import (
    difference_text,
    machine_text,
    precision_text,
    result_table,
    trials_text,
    verdict_table,
    verdict_text,
)

DOCS = Path(__file__).parents[1] / "docs"
KEPT = DOCS / "runs"
PAGES = (
    *(DOCS / f"{name}.md" for name in ("results", "claims", "performance")),
    *sorted((DOCS / "methods").glob("*.md")),
)
_FILES = ("config.json", "environment.json", "result.json")
_OF_RUNS = re.compile(r"(<!-- runs: ([^>]*?) -->\n).*?(<!-- /runs -->)", re.DOTALL)
_TABLE = re.compile(r"(<!-- published: ([^>]*?) -->\n).*?(<!-- /published -->)", re.DOTALL)
_OF_STUDIES = re.compile(
    r"(<!-- (study|figure|claims): ([^>]*?) -->\n).*?(<!-- /\2 -->)", re.DOTALL
)
_ARMS = re.compile(r"(<!-- arms -->\n).*?(<!-- /arms -->)", re.DOTALL)
_IN_LINE = re.compile(r"(<!-- (printed|measured): ([^>]*?) -->).*?(<!-- / -->)")
SEEDS = range(6)  # three for most cells, six where three could not decide (docs/protocol.md)
SCALES: tuple[StudyScale, ...] = ("mini", "lite", "paper")
_SHEETS = {"reconstructions", "detail-example"}  # figures that need more of a run than its numbers
_NUMBERS = {"avg": "Avg", "last": "Last", "forgetting": "F"}
_CHOICES = (*_NUMBERS, "parameters", "top5")


# ------------------------------------------------------------------------------- numbers of presets


def fill_numbers(text: str) -> str:
    """A page with the numbers of the presets and of the studies."""
    text = _OF_STUDIES.sub(_fill_study, text)
    return _IN_LINE.sub(_fill_line, _TABLE.sub(_fill_table, text))


def _fill_table(match: re.Match[str]) -> str:
    presets = [PRESETS[name] for name in match[2].split()]
    lines = ["| recipe | published, Avg / Last / F | where | measured |", "|---|---|---|---|"]
    for recipe in RECIPES.values():
        measured = "not yet" if recipe.measured is None else _join(vars(recipe.measured))
        for row in recipe.published if recipe.preset in presets else ():
            where = "; ".join(filter(None, (row.source, row.note)))
            lines.append(f"| `{recipe.name}` | {_spell(row)} | {where} | {measured} |")
    table = "\n".join(lines)
    works = [f"{key} {work}." for key, work in SOURCES.items() if key in table]
    return match[1] + table + "\n" + (f"\n{' '.join(works)}\n" if works else "") + match[3]


def _fill_line(match: re.Match[str]) -> str:
    opening, kind, names, closing = match.groups()
    choice, *rest = names.split()
    choice, names = (choice, rest) if choice in _CHOICES else (None, [choice, *rest])
    find = _find_printed if kind == "printed" else _read_run
    found = [find(name, choice) for name in names]
    single = choice in (*_NUMBERS, "parameters")
    cells = [f"{values[choice]:.2f}" if single else _join(values) for values in found]
    return f"{opening}{', '.join(cells)}{closing}"


def _find_printed(name: str, choice: str | None) -> dict[str, Any]:
    rows = RECIPES[name].published
    top = 5 if choice == "top5" else 1
    return next(vars(row) for row in rows if row.source.startswith("[bimae]") and row.top == top)


def _read_run(name: str, _: str | None = None) -> dict[str, Any]:
    result = json.loads((KEPT / name / "result.json").read_bytes())
    keys = ("average_accuracy", "last_accuracy", "forgetting")
    return {number: result[key] for number, key in zip(_NUMBERS, keys, strict=True)}


def _spell(row: Published) -> str:
    top = f"top-{row.top} " if row.top != 1 else ""
    size = f", {row.parameters:.2f} M parameters" if row.parameters is not None else ""
    return f"{'about ' if row.is_rough else ''}{top}{_join(vars(row))}{size}"


def _join(values: dict[str, Any]) -> str:
    """`Avg / Last / F` as far as they are known; one alone has its name."""
    style = "g" if values.get("is_rough") else ".2f"
    known = [number for number in _NUMBERS if values[number] is not None]
    label = f"{_NUMBERS[known[0]]} " if len(known) == 1 else ""
    return label + " / ".join(f"{values[number]:{style}}" for number in known)


def measured() -> dict[str, dict[str, Any]]:
    """The recipes that were run as they are, with hours and hardware."""
    found = {}
    for folder in sorted(KEPT.iterdir()):
        if folder.name in RECIPES:
            environment = json.loads((folder / "environment.json").read_bytes())
            result = json.loads((folder / "result.json").read_bytes())
            machine = f"{environment['cores']} cores of {environment['processor']}"
            found[folder.name] = {
                **{number: round(value, 2) for number, value in _read_run(folder.name).items()},
                "hours": round(result["train_seconds"] / 3600, 2),
                "hardware": ", ".join([*environment["accelerators"], machine]),
            }
    return found


def trials() -> dict[str, int]:
    """How many settings of each method were tried on held-out images, whatever the classes."""
    found: dict[str, set[str]] = {}
    for path in KEPT.glob("trial-*/config.json"):
        config = RunConfig.model_validate_json(path.read_bytes())
        if config.data.holdout_ratio > 0:
            # Whole, so that a setting newer than the run has its default.
            tried = config.model_dump_json(include={"augment", "memory", "method"})
            found.setdefault(config.method.name, set()).add(tried)
    return {name: len(found[name]) for name in sorted(found)}


# ----------------------------------------------------------------------------------------- studies


def _fill_study(match: re.Match[str]) -> str:
    opening, kind, words, closing = match.groups()
    if kind == "claims":
        return f"{opening}{to_markdown(_claims_table(words.split()))}{closing}"
    name, scale = words.split()
    evidence = gather(name, scale)
    if kind == "study":
        return f"{opening}{_study_text(evidence)}{closing}"
    lines = [
        f"![{figure.title}](figures/{_figure_file(name, scale, figure)})\n\n{figure.caption}\n"
        for figure in _figures(name, scale)
    ]
    return f"{opening}{chr(10).join(lines)}{closing}"


@cache
def _figures(name: str, scale: StudyScale) -> list[Figure]:
    return draw_figures(gather(name, scale))


def _figure_file(name: str, scale: StudyScale, figure: Figure) -> str:
    return f"{name}-{scale}-{figure.name}.{'png' if figure.svg is None else 'svg'}"


def write_figures(text: str) -> None:
    """Write the figures of the studies that a page names."""
    for _, kind, words, _ in _OF_STUDIES.findall(text):
        for figure in _figures(*words.split()) if kind == "figure" else ():
            path = DOCS / "figures" / _figure_file(*words.split(), figure)
            content = figure.png if figure.svg is None else on_white(figure.svg).encode()
            write_bytes(path, content or b"")


@cache
def gather(name: str, scale: StudyScale) -> Evidence:
    """A study as far as its runs are kept: the columns that have any, all rows."""
    study, folder = find_study(name), KEPT
    runs = runs_of(study, scale, SEEDS)
    shown: set[str] = set()
    used = []
    for column in study.columns_at(scale):
        done = {run.name for run in runs if run.column == column.name and run.is_done(folder)}
        used += [column.name] if done - shown else []  # not merely runs of another column
        shown |= done
    kept = [run for run in runs if run.column in used]
    return Evidence(study, scale, kept, folder, _read_with_ledger)


@cache
def _read_with_ledger(path: Path) -> RunFolder:
    """A run; if it is older than `kept_bytes`, with what `remnant show` says of its config.

    Not if its network is cut after training: how much is left of it follows from no setting.
    """
    run = read_run(path)
    config = RunConfig.model_validate(run.config)
    if run.result.kept_bytes or METHODS[config.method.name].cuts_network:
        return run
    kept = kept_beside_memory(config)
    if run.result.memory is not None and run.config["memory"] is not None:
        kept["memory"] = run.result.memory.used_bytes
    return replace(run, result=run.result.model_copy(update={"kept_bytes": kept}))


def _study_text(evidence: Evidence) -> str:
    parts = []
    for column in evidence.columns:
        table, left = _without_empty(result_table(evidence, column))
        parts.append(f"**{column.title}**\n\n{to_markdown(table)}")
        parts += [f"Not run: {'; '.join(left)}.\n"] if left else []
    if judgements := [one for one in evidence.judgements() if one.measured is not None]:
        parts.append(to_markdown(_without_empty(verdict_table(judgements))[0]))
    seeds = sorted({seed for cell in evidence.cells.values() for seed in cell.runs})
    columns = [column.name for column in evidence.columns]
    is_whole = len(columns) == len(evidence.study.columns_at(evidence.scale))
    request = StudyRequest(
        study=evidence.study.name,
        scale=evidence.scale,
        seeds=seeds,
        columns=[] if is_whole else columns,
    )
    folder = StudyFolder(DOCS, evidence.study, request, [])
    machines = " ".join(f"{one}." for one in dict.fromkeys(map(machine_text, evidence.runs)))
    said = [f"`{study_command(folder)}`.", machines, _cost_text(evidence), precision_text(evidence)]
    said += [trials_text(evidence), evidence.study.note]
    parts.append(f"{' '.join(filter(None, said))}\n" if machines else "Not run.\n")
    return "\n".join(parts)


def _without_empty(table: Table) -> tuple[Table, list[str]]:
    """Without rows and columns that have no number at all; and what heads such rows."""
    left = [row[0] for row in table.rows if set(row[1:]) == {MISSING}]
    rows = [row for row in table.rows if set(row[1:]) != {MISSING}]
    places = [
        place
        for place in range(len(table.headers))
        if place < table.first_number or any(row[place] != MISSING for row in rows)
    ]
    headers = [table.headers[place] for place in places]
    kept = [[row[place] for place in places] for row in rows]
    return Table(headers, kept, table.first_number), left


def _cost_text(evidence: Evidence) -> str:
    """What one run took, from the cheapest to the dearest of those that recorded it."""
    flops = sorted(run.result.train_flops for run in evidence.runs if run.result.train_flops)
    if not flops:
        return ""
    least, most = (f"{amount / 1e12:,.0f}" for amount in (flops[0], flops[-1]))
    amount = f"{least} TFLOP" if least == most else f"{least} to {most} TFLOP"
    if len(flops) == len(evidence.runs):
        return f"{len(evidence.runs)} runs of {amount}."
    return f"{len(evidence.runs)} runs of {amount}, as far as recorded ({len(flops)} of them)."


def _claims_table(names: list[str]) -> Table:
    """One line per claim: printed, and what came out at each scale."""
    rows = []
    for name in names:
        study = find_study(name)
        found = [one for scale in SCALES if scale in study.columns
                 for one in gather(name, scale).judgements()]  # fmt: skip
        for claim in study.claims:
            own = [one for one in found if one.claim == claim]
            gaps = [printed_gap(study, claim, column) for column in study.columns["paper"]]
            printed = [f"{gap:+.2f}" for gap in gaps if gap is not None]
            measured = [f"{_place(one)}: {difference_text(one.measured)}, {verdict_text(one)}"
                        for one in own if one.measured is not None]  # fmt: skip
            rows.append([
                f"{study.source or study.title}: {claim.text}",
                claim.metric.title,
                ", ".join(printed) or MISSING,
                "; ".join(measured) or "not run",
            ])  # fmt: skip
    return Table(["Claim", "By", "Reported", "Measured"], rows, first_number=4)


def _place(judgement: Judgement) -> str:
    protocol = PROTOCOLS[judgement.column.protocol]
    return f"{protocol.scale}, {judgement.column.title}"


# ----------------------------------------------------------------------------------- tables of runs


def _keep(runs: Path, name: str) -> Path:
    """The files of a run that its row needs, kept beside the documents."""
    kept = KEPT / name
    if runs != kept.parent and is_finished(runs / name):
        kept.mkdir(parents=True, exist_ok=True)
        for file in _FILES:
            shutil.copyfile(runs / name / file, kept / file)
        config = json.loads((kept / "config.json").read_bytes())
        config["data"]["root"] = None  # a place on one machine
        write_json(kept / "config.json", config)
    return kept


def _runs_table(runs: list[RunFolder]) -> Table:
    """A line for every run, by the name of its folder."""
    headers = ["Run", "Memory", "Avg", "Last", "F", "Newest", "Params", "Per class", "TFLOP"]
    rows = []
    for run in runs:
        result, kept = run.result, exemplars_per_class(run)
        accuracies = (
            result.average_accuracy, result.last_accuracy, result.forgetting, result.newest
        )  # fmt: skip
        rows.append([
            run.name.removeprefix("trial-"),
            memory_text(run),
            *(MISSING if one is None else percent_text(one, 2) for one in accuracies),
            MISSING if result.parameters is None else count_text(result.parameters),
            MISSING if kept is None else f"{kept:,.0f}",
            MISSING if result.train_flops is None else f"{result.train_flops / 1e12:.1f}",
        ])  # fmt: skip
    return Table(headers, rows, first_number=2)


def fill_runs(text: str, runs: Path = KEPT) -> str:
    """A page with the tables of runs, which are copied to docs/runs unless they are there."""

    def fill(match: re.Match[str]) -> str:
        opening, names, closing = match.groups()
        folders = [_keep(runs, name) for name in names.split()]
        missing = [folder.name for folder in folders if not folder.exists()]
        if missing:
            print(f"left as it is, for want of {', '.join(missing)}")
            return match.group()
        table, _ = _without_empty(_runs_table([read_run(folder) for folder in folders]))
        return f"{opening}{to_markdown(table)}{closing}"

    return _OF_RUNS.sub(fill, text)


def fill_arms(text: str) -> str:
    """A page with the table of what was tried, whose runs are kept by now."""
    return _ARMS.sub(lambda match: f"{match[1]}{to_markdown(arms_table(KEPT))}{match[2]}", text)


def _keep_study_runs(runs: Path) -> None:
    """Copies every finished run of a study."""
    names = {
        run.name
        for study in STUDIES.values()
        for scale in SCALES
        if scale in study.columns
        for run in runs_of(study, scale, SEEDS)
        if run.is_done(runs)
    }
    for name in sorted(names):
        _keep(runs, name)
    for name in _pictured() & names:
        _keep_pictures(runs, name)


def _pictured() -> set[str]:
    """Runs whose pictures are a figure of the paper."""
    studies = [one for one in STUDIES.values() if _SHEETS & {*one.figures}]
    return {run.name for study in studies for run in runs_of(study, "mini")}


def _keep_pictures(runs: Path, name: str) -> None:
    """What a run has redrawn: after some of its tasks, and after the last one for the details."""
    last = sorted((runs / name / RECONSTRUCTIONS).glob("*.safetensors"))[-1:]
    for path in [*(runs / name / DRAWINGS).glob("*.safetensors"), *last]:
        kept = KEPT / path.relative_to(runs)
        kept.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, kept)


def main() -> None:
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    runs = Path(sys.argv[1]) if len(sys.argv) == 2 else KEPT
    if runs != KEPT:
        _keep_study_runs(runs)
    texts = {page: fill_runs(page.read_text(), runs) for page in PAGES}
    rows = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in measured().items()]
    MEASURED.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    write_json(TRIALS, trials())
    for page, text in texts.items():
        write_figures(text)
        page.write_text(fill_arms(fill_numbers(text)))


if __name__ == "__main__":
    main()
