from __future__ import annotations

import csv
import io
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remnant.errors import InputError
from remnant.reports import csv_table, latex_table, markdown_table, terminal_rows
from remnant.reports.groups import differing_settings, read_groups, unequal_terms
from remnant.reports.result_tables import Table, numbers_first, to_latex, to_markdown
from remnant.reports.units import bytes_text, count_text, percent_text, seconds_text
from tests.support.run_folders import WriteRun


def test_runs_that_differ_in_seed_order_and_paths_form_one_group(write_run: WriteRun) -> None:
    lasts = [70.0, 74.0, 81.0]
    folders = [
        write_run(f"{name}/run", seed=seed, order=order, accuracies=[90.0, 80.0, last])
        for name, seed, order, last in zip("abc", (0, 1, 0), ("x", "x", "y"), lasts, strict=True)
    ]
    (group,), unfinished = read_groups(folders)
    spread = group.spread(lambda run: run.result.last_accuracy)
    assert spread is not None
    assert unfinished == []
    assert (spread.mean, spread.count) == (75.0, 3)
    assert spread.deviation == pytest.approx(statistics.stdev(lasts))
    assert not group.has_twins


def test_runs_that_differ_in_a_setting_stay_apart_and_are_named_by_it(write_run: WriteRun) -> None:
    folders = [write_run(f"run-{n}", settings={"training": {"epochs": n}}) for n in (5, 6)]
    groups, _ = read_groups(folders)
    assert [group.label for group in groups] == ["er (training.epochs=5)", "er (training.epochs=6)"]
    assert differing_settings(groups) == {"training.epochs": ["5", "6"]}


def test_a_setting_that_an_older_run_does_not_know_counts_as_off(write_run: WriteRun) -> None:
    settings = [{"epochs": 5}, {"epochs": 5, "ratio": 0.0}, {"epochs": 5, "ratio": 0.5}]
    folders = [
        write_run(f"run-{n}", seed=n, settings={"training": one}) for n, one in enumerate(settings)
    ]
    groups, _ = read_groups(folders)
    assert [len(group.runs) for group in groups] == [2, 1]
    assert differing_settings(groups) == {"training.ratio": ["null", "0.5"]}


def test_groups_of_one_method_are_named_by_their_recipes_where_these_differ(
    write_run: WriteRun,
) -> None:
    folders = [
        write_run(name, settings={"training": name}, result={"recipe": f"digits-er-{name}"})
        for name in ("short", "long")
    ]
    labels = [group.label for group in read_groups(folders)[0]]
    assert labels == ["digits-er-short", "digits-er-long"]


def test_a_single_run_has_no_deviation(write_run: WriteRun) -> None:
    assert "±" not in markdown_table([write_run("run")])


def test_a_repeated_seed_is_noticed(write_run: WriteRun) -> None:
    (group,), _ = read_groups([write_run("a"), write_run("b")])
    assert group.has_twins


def test_unfinished_runs_stay_out_of_the_means(write_run: WriteRun) -> None:
    finished, cut = write_run("a"), write_run("b", seed=1, num_done=2)
    groups, unfinished = read_groups([finished, cut])
    assert [len(group.runs) for group in groups] == [1]
    assert [run.path for run in unfinished] == [cut]
    with pytest.raises(InputError, match="remnant resume"):
        read_groups([cut])


def test_the_tables_hold_mean_deviation_and_memory(write_run: WriteRun) -> None:
    write_run("er/0", accuracies=[90.0, 80.0, 70.0])
    write_run("er/1", accuracies=[90.0, 80.0, 74.0], seed=1)
    write_run("finetune", method="finetune", with_memory=False)
    root = write_run("joint", method="joint").parent
    rows = markdown_table([root]).splitlines()
    assert rows[0].startswith("| Method | Dataset | Memory | Avg | Last | F | Newest | Top-5 |")
    assert "| er | digits | raw, 60KiB/class | 80.67 ± 0.94 | 72.00 ± 2.83 |" in rows[2]
    assert rows[2].endswith("| 464 k | 140 M | 366,000 | 20 | 812 | 75 | 2 |")
    assert "| finetune | digits | none |" in rows[3]
    assert "72.00 $\\pm$ 2.83 &" in latex_table([root])


cells = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=8)


@given(st.lists(st.lists(cells, min_size=3, max_size=3), max_size=4))
def test_no_text_breaks_a_table(rows: list[list[str]]) -> None:
    table = Table(["a", "b", "c"], rows, first_number=1)
    for line in to_markdown(table).split("\n")[:-1]:
        assert line.replace("\\|", "").count("|") == 4
    for line in to_latex(table).split("\n")[4 : 4 + len(rows)]:
        assert line.replace(r"\&", "").count("&") == 2


def test_latex_signs_are_escaped() -> None:
    table = Table(["50%_{of}$#"], [["a\\b^~&"]], first_number=1)
    text = to_latex(table)
    assert r"50\%\_\{of\}\$\#" in text
    assert r"a\textbackslash{}b\textasciicircum{}\textasciitilde{}\&" in text


def test_latex_has_no_sign_that_pdflatex_stops_at() -> None:
    table = Table(
        ["π, Δ", "8 × 8"], [["72.00 ± 2.83", "–"], ["\N{MINUS SIGN}1.5", "…"]], first_number=0
    )
    text = to_latex(table)
    assert text.isascii()
    assert r"$\pi$, $\Delta$ & 8 $\times$ 8 \\" in text
    assert r"72.00 $\pm$ 2.83 & -- \\" in text
    assert r"$-$1.5 & \dots{} \\" in text


def test_the_terminal_table_begins_with_the_average(write_run: WriteRun) -> None:
    headers, rows = terminal_rows(write_run("run"))
    assert len(headers) == 3
    assert rows[0][:2] == ["Average accuracy", "93.0 %"]
    assert rows[2][:2] == ["After each task", "98.0 93.0 88.0"]
    assert all(len(row) == 3 for row in rows)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (bytes_text(61_440), "60.0 KiB"),
        (bytes_text(1023), "1023 B"),
        (bytes_text(3 * 1024**3), "3.00 GiB"),
        (count_text(12_940_000), "12.9 M"),
        (count_text(464_154), "464 k"),
        (count_text(12), "12"),
        (seconds_text(59.94), "59.9 s"),
        (seconds_text(75.2), "1 min 15 s"),
        (seconds_text(7260), "2 h 1 min"),
        (percent_text(-0.01), "0.0"),
        (percent_text(None), "–"),
    ],
)
def test_numbers_read_well(text: str, expected: str) -> None:
    assert text == expected


# ------------------------------------------------------------------- arithmetic, CSV, equal terms


def test_flops_and_passes_have_columns_where_a_run_counted_them(write_run: WriteRun) -> None:
    old = write_run("old")
    assert "Passes" not in markdown_table([old])
    counted = {"train_flops": 1_234_000_000_000, "passes_over_new": [30.0, 29.0, 28.0]}
    new = write_run("new", method="wa", result=counted)
    cells = columns_of(markdown_table([old, new]), "Train FLOP", "Passes")
    assert cells == [["–", "–"], ["1.23 T", "29.0"]]
    (line,) = [row for row in terminal_rows(new)[1] if row[0] == "Arithmetic"]
    assert line[1] == "1.23 T FLOP"
    assert "29.0 times" in line[2]


def columns_of(markdown: str, *names: str) -> list[list[str]]:
    """The cells of some columns, row by row."""
    head, _, *rows = ([cell.strip() for cell in row.split("|")] for row in markdown.splitlines())
    return [[row[head.index(name)] for name in names] for row in rows]


def test_newest_stands_beside_forgetting_and_all_bytes_beside_those_of_the_memory(
    write_run: WriteRun,
) -> None:
    kept = {"kept_bytes": {"network": 1_000_000, "memory": 366_000, "scores": 48}}
    counted = write_run("counted", result=kept | {"newest_accuracy": 61.5})
    old = write_run("old", method="wa", result={"accuracy_matrix": [[98.0], [70.0, 81.0]]})
    table = markdown_table([counted, old])
    head = table.splitlines()[0]
    assert "| F | Newest |" in head
    assert "| Bytes | Kept |" in head
    # In folders of remnant 0.1 the matrix tells the one, and nothing the other.
    assert columns_of(table, "Newest", "Kept") == [["61.50", "1,366,048"], ["81.00", "–"]]


def test_no_column_is_empty_from_top_to_bottom(write_run: WriteRun) -> None:
    joint = write_run("joint", num_tasks=1)
    head = markdown_table([joint]).splitlines()[0]
    assert "Newest" not in head
    assert "Kept" not in head


def test_csv_has_a_line_for_every_run_with_plain_numbers(write_run: WriteRun) -> None:
    folders = [
        write_run(f"a, {seed}", seed=seed, result={"train_flops": 10**15}) for seed in (0, 1)
    ]
    rows = list(csv.DictReader(io.StringIO(csv_table(folders))))
    assert [row["seed"] for row in rows] == ["0", "1"]
    assert [row["folder"] for row in rows] == [str(folder) for folder in folders]
    assert {row["Train FLOP"] for row in rows} == {"1000000000000000"}
    assert {row["Passes"] for row in rows} == {""}
    assert float(rows[0]["Avg"]) == pytest.approx(93.0)


def test_numbers_can_come_before_words() -> None:
    table = Table(["Method", "Dataset", "Avg", "Last"], [["er", "digits", "1", "2"]], 2)
    assert numbers_first(table).headers == ["Method", "Avg", "Last", "Dataset"]
    assert numbers_first(table).rows == [["er", "1", "2", "digits"]]


def test_runs_on_a_pretrained_encoder_have_a_table_of_their_own(write_run: WriteRun) -> None:
    scratch = write_run("scratch", settings=schedule_of(30))
    frozen = write_run("frozen", settings={"method": {"name": "ncm", "encoder": {"name": "x"}}})
    assert markdown_table([scratch]).count("| Method |") == 1
    tables = markdown_table([frozen, scratch]).split("\n\n")
    assert [table.count("| Method |") for table in tables] == [1, 1]
    assert latex_table([frozen, scratch]).count("tabular") == 4
    assert unequal_terms(read_groups([frozen, scratch])[0]) == []


def schedule_of(epochs: int) -> dict[str, Any]:
    return {"method": {"name": "er", "first": {"epochs": epochs}, "later": None}}


def test_runs_of_other_streams_schedules_or_passes_are_not_on_equal_terms(
    write_run: WriteRun,
) -> None:
    base = write_run("a", settings=schedule_of(30), result={"passes_over_new": [30.0]})
    same = write_run("b", seed=1, settings=schedule_of(30), result={"passes_over_new": [30.0]})

    def told(*folders: Any) -> list[str]:
        return unequal_terms(read_groups(folders)[0])

    assert told(base, same) == []
    longer = write_run("c", settings=schedule_of(60), result={"passes_over_new": [59.6]})
    epochs, passes = told(base, longer)
    assert "30 epochs" in epochs
    assert "60 epochs" in epochs
    assert passes.startswith("Passes over new images on digits differ")
    (stream,) = told(base, write_run("d", num_tasks=5, settings=schedule_of(30)))
    assert "3 tasks of 2" in stream
    assert "5 tasks of 2" in stream
    elsewhere = write_run("e", dataset="cifar100", settings=schedule_of(60))
    assert told(base, elsewhere) == []
