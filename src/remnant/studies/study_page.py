"""The pages of a study: one self-contained HTML file, Markdown, CSV and LaTeX."""

from __future__ import annotations

from base64 import b64encode
from shlex import quote

from remnant.files import write_text
from remnant.reports.embed import inline_svg
from remnant.reports.page import Picture, render_page
from remnant.studies.contest import ContestRequest
from remnant.studies.evidence import Cell, Evidence
from remnant.studies.study import Study
from remnant.studies.study_figures import Figure, draw_figures
from remnant.studies.study_folder import CSV, LATEX, MARKDOWN, PAGE, StudyFolder
from remnant.studies.study_tables import (
    cost_table,
    precision_text,
    result_table,
    study_csv,
    study_latex,
    study_markdown,
    verdict_table,
)
from remnant.studies.study_words import averaged_text, terms_text
from remnant.studies.winner import ranking, verdict


def write_pages(folder: StudyFolder) -> Evidence:
    """Write all pages of a study from its run folders alone."""
    request = folder.request
    evidence = Evidence(folder.study, request.scale, folder.runs, folder.runs_path)
    markdown = study_markdown(evidence, terms_text(folder), study_command(folder))
    write_text(folder.path / PAGE, _page(folder, evidence, markdown))
    write_text(folder.path / MARKDOWN, markdown)
    write_text(folder.path / CSV, study_csv(evidence))
    write_text(folder.path / LATEX, study_latex(evidence))
    return evidence


def _page(folder: StudyFolder, evidence: Evidence, markdown: str) -> str:
    judgements = evidence.judgements()
    pictures = [_picture(figure) for figure in draw_figures(evidence)]
    return render_page(
        "study.html.j2",
        study=folder.study,
        scale=evidence.scale,
        terms=terms_text(folder),
        averaged=averaged_text(folder.study),
        command=study_command(folder),
        tables=[(column, result_table(evidence, column)) for column in evidence.columns],
        verdicts=verdict_table(judgements) if judgements else None,
        counts=[
            (verdict, sum(one.verdict == verdict for one in judgements))
            for verdict in ("agrees", "opposite", "undecided", "not run")
        ],
        winners=[verdict(ranked) for ranked in _ranked(folder.study, evidence) if len(ranked) > 1],
        pictures=pictures,
        costs=cost_table(evidence),
        precision=precision_text(evidence),
        unfinished=evidence.unfinished,
        copies=[
            ("Markdown", markdown),
            ("LaTeX", study_latex(evidence)),
            ("CSV", study_csv(evidence)),
        ],
    )


def _ranked(study: Study, evidence: Evidence) -> list[list[Cell]]:
    return [ranking(evidence, column) for column in evidence.columns if study.tells_winner]


def _picture(figure: Figure) -> Picture:
    words = f"{figure.title}. {figure.caption}"
    svg = inline_svg(figure.svg.encode(), figure.name, words) if figure.svg else None
    address = f"data:image/png;base64,{b64encode(figure.png).decode()}" if figure.png else None
    return Picture(figure.name, figure.title, figure.caption, svg=svg, address=address)


def study_command(folder: StudyFolder) -> str:
    """The command that makes the study again."""
    request = folder.request
    if request.contest is not None:
        return _contest_text(request.contest, request.seeds)
    parts = [f"remnant reproduce {request.study} --scale {request.scale}"]
    if request.seeds != [0]:
        parts.append(f"--seeds {','.join(map(str, request.seeds))}")
    for option, names in (("--rows", request.rows), ("--columns", request.columns)):
        if names:
            parts.append(f"{option} {','.join(names)}")
    if request.equal != folder.study.equal:
        parts.append(f"--equal {request.equal}")
    return " ".join(parts)


def _contest_text(contest: ContestRequest, seeds: list[int]) -> str:
    parts = [
        f"remnant contest {quote(contest.folder)} --budget {quote(contest.budget)}",
        f"--methods {','.join(contest.methods)} --codecs {','.join(contest.codecs)}",
        f"--image-size {contest.image_size} --seeds {','.join(map(str, seeds))}",
    ]
    parts += [] if contest.num_tasks is None else [f"--tasks {contest.num_tasks}"]
    parts += [] if contest.epochs is None else [f"--epochs {contest.epochs}"]
    return " ".join(parts)
