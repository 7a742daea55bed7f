"""Differences, intervals and verdicts, computed a second time by hand."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from remnant.errors import InputError
from remnant.studies import STUDIES
from remnant.studies.evidence import Difference, Evidence, Judgement, difference, judge
from remnant.studies.study import DENSITY, FORGETTING, LAST, Claim
from remnant.studies.study_runs import runs_of
from remnant.studies.study_tables import (
    cost_table,
    precision_text,
    result_table,
    short_table,
    study_csv,
    study_markdown,
)
from tests.support.study_evidence import evidence_of, write_run

# The 97.5 % quantile of Student's t, from a printed table.
T_975 = {1: 12.706, 2: 4.303, 3: 3.182}


def test_several_seeds_are_compared_in_pairs(tmp_path: Path) -> None:
    ours, theirs = (60.0, 64.0, 62.0), (50.0, 55.0, 57.0)
    for seed, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        end = f"-seed-{seed}" if seed else ""
        write_run(tmp_path, f"cifar100-mini-bimae-full{end}", seed, one)
        write_run(tmp_path, f"cifar100-mini-bimae-baseline{end}", seed, other)
    evidence = evidence_of(tmp_path, (0, 1, 2))
    cells = evidence.cells
    found = difference(cells["full", "published"], cells["baseline", "published"], LAST)
    assert found is not None
    gaps = [one - other for one, other in zip(ours, theirs, strict=True)]
    mean = sum(gaps) / 3
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / 2)
    assert found.mean == pytest.approx(mean)
    assert found.margin == pytest.approx(T_975[2] * deviation / math.sqrt(3), rel=1e-3)
    assert not found.is_over_images
    # Forgetting is better when lower: here it is 100 - Last, so the difference is the same.
    forgets = difference(cells["full", "published"], cells["baseline", "published"], FORGETTING)
    assert forgets is not None
    assert forgets.mean == pytest.approx(mean)
    verdicts = {one.claim.text: one.verdict for one in evidence.judgements()}
    assert verdicts["the whole method is ahead of the baseline"] == "agrees"  # 8 ± 6.6
    assert verdicts["the detail branch helps"] == "not run"


def test_one_run_each_has_the_interval_of_its_test_images(tmp_path: Path) -> None:
    write_run(tmp_path, "cifar100-mini-bimae-full", 0, 60.0)
    write_run(tmp_path, "cifar100-mini-bimae-baseline", 0, 50.0)
    cells = evidence_of(tmp_path, (0,)).cells
    pair = cells["full", "published"], cells["baseline", "published"]
    found = difference(*pair, LAST)
    assert found is not None
    # 1,000 test images: two shares of 0.6 and 0.5.
    by_hand = 196 * math.sqrt(0.6 * 0.4 / 1000 + 0.5 * 0.5 / 1000)
    assert found.margin == pytest.approx(by_hand)
    assert found.is_over_images
    # What the test images make of the density is not known, so one run each decides nothing.
    other = difference(*pair, DENSITY)
    assert other is not None
    assert other.margin is None
    assert judge(other) == "undecided"


def test_the_interval_of_one_pair_is_that_of_the_runs_whose_values_are_known(
    tmp_path: Path,
) -> None:
    for seed, end in ((0, ""), (1, "-seed-1")):
        write_run(tmp_path, f"cifar100-mini-bimae-full{end}", seed, 90.0 - 30 * seed)
        write_run(tmp_path, f"cifar100-mini-bimae-baseline{end}", seed, 50.0)
    unknown = tmp_path / "cifar100-mini-bimae-baseline" / "result.json"
    unknown.write_text(json.dumps(json.loads(unknown.read_text()) | {"last_accuracy": None}))
    cells = evidence_of(tmp_path, (0, 1)).cells
    found = difference(cells["full", "published"], cells["baseline", "published"], LAST)
    assert found is not None
    assert (found.mean, found.count) == (10.0, 1)
    by_hand = 196 * math.sqrt(0.6 * 0.4 / 1000 + 0.5 * 0.5 / 1000)  # seed 1
    assert found.margin == pytest.approx(by_hand)


def test_the_text_tells_what_every_run_took(tmp_path: Path) -> None:
    write_run(tmp_path, "cifar100-mini-bimae-full", 0, 60.0)
    folder = tmp_path / "cifar100-mini-bimae-full"
    result = json.loads((folder / "result.json").read_text()) | {"train_flops": 3.2e15}
    (folder / "result.json").write_text(json.dumps(result | {"train_seconds": 1234.0}))
    environment = {"commit": "abc1234", "cores": 2, "processor": "Some CPU"}
    (folder / "environment.json").write_text(json.dumps(environment))
    text = study_markdown(evidence_of(tmp_path, (0,)), "All is equal.", "remnant reproduce it")
    assert "Scale: mini. All is equal.\n" in text
    results, _, runs = text.partition("## Runs")
    assert "remnant reproduce" not in results
    assert runs.startswith("\n\n`remnant reproduce it`\n")
    (line,) = [line for line in runs.splitlines() if "| cifar100-mini-bimae-full |" in line]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert {"0", "3.20 P", "1,234", "abc1234", "2 cores of Some CPU"} <= set(cells)


@pytest.mark.parametrize(
    ("mean", "half", "margin", "verdict"),
    [
        (3.0, 2.0, 0.0, "agrees"),
        (-3.0, 2.0, 0.0, "opposite"),
        (1.0, 2.0, 0.0, "undecided"),
        (-0.2, 0.1, -0.5, "agrees"),  # behind, but by less than half a point
        (-1.0, 0.1, -0.5, "opposite"),
        (3.0, None, 0.0, "undecided"),
    ],
)
def test_an_interval_decides(mean: float, half: float | None, margin: float, verdict: str) -> None:
    assert judge(Difference(mean, half, 2, False), margin) == verdict


@pytest.mark.parametrize("rows", [(), ("er", "bimae")])
def test_all_others_means_those_of_the_study_whatever_was_asked_for(
    tmp_path: Path, rows: tuple[str, ...]
) -> None:
    study = STUDIES["cifar100"]
    claim = next(one for one in study.claims if not one.against)
    rivals = [row for row in study.rows if row.is_rival and row.name != claim.row]
    write_run(tmp_path, "cifar100-mini-bimae-full", 0, 60.0)
    for index, row in enumerate(rivals[1:]):
        write_run(tmp_path, f"cifar100-mini-{row.preset}", 0, 30.0 + index)
    runs = runs_of(study, "mini", (0,), rows, ["published"])

    def judgement() -> Judgement:
        found = Evidence(study, "mini", runs, tmp_path).judgements()
        return next(one for one in found if one.claim == claim)

    assert judgement().verdict == "not run"  # one of the others is missing
    write_run(tmp_path, f"cifar100-mini-{rivals[0].preset}", 0, 20.0)
    if rows:
        assert judgement().verdict == "not run"
    else:
        assert judgement().rival == rivals[-1].label


def test_the_nearest_rival_is_found_over_shared_seeds(tmp_path: Path) -> None:
    """Seed 0 is easy here: a rival that ran with it alone has a higher mean, and is no nearer."""
    claim = Claim("ends first", "bimae", "")
    study = replace(STUDIES["cifar100"], claims=(claim,))
    rivals = [row for row in study.rows if row.is_rival and row.name != claim.row]
    for seed, easier in ((0, 30.0), (1, 0.0)):
        end = f"-seed-{seed}" if seed else ""
        write_run(tmp_path, f"cifar100-mini-bimae-full{end}", seed, 60.0 + easier)
        write_run(tmp_path, f"cifar100-mini-{rivals[0].preset}{end}", seed, 55.0 + easier)
    for row in rivals[1:]:
        write_run(tmp_path, f"cifar100-mini-{row.preset}", 0, 40.0)
    runs = runs_of(study, "mini", (0, 1), (), ["published"])
    (judgement,) = Evidence(study, "mini", runs, tmp_path).judgements()
    assert judgement.rival == rivals[0].label
    assert judgement.measured is not None
    assert judgement.measured.mean == pytest.approx(5.0)


def test_being_first_must_hold_against_every_rival(tmp_path: Path) -> None:
    """A rival further away, whose seeds disagree, leaves open who is first."""
    claim = Claim("ends first", "bimae", "")
    study = replace(STUDIES["cifar100"], claims=(claim,))
    rivals = [row for row in study.rows if row.is_rival and row.name != claim.row]
    for seed, last in ((0, 53.0), (1, 30.0)):
        end = f"-seed-{seed}" if seed else ""
        write_run(tmp_path, f"cifar100-mini-bimae-full{end}", seed, 60.0)
        write_run(tmp_path, f"cifar100-mini-{rivals[0].preset}{end}", seed, last)
    for row in rivals[1:]:
        write_run(tmp_path, f"cifar100-mini-{row.preset}", 0, 44.0)
    runs = runs_of(study, "mini", (0, 1), (), ["published"])
    (judgement,) = Evidence(study, "mini", runs, tmp_path).judgements()
    assert (judgement.rival, judgement.verdict) == (rivals[0].label, "undecided")


def test_a_difference_over_fewer_pairs_than_runs_says_so(tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        end = f"-seed-{seed}" if seed else ""
        write_run(tmp_path, f"cifar100-mini-bimae-replay{end}", seed, 60.0 + seed)
    write_run(tmp_path, "cifar100-mini-bimae-baseline", 0, 50.0)
    evidence = evidence_of(tmp_path, (0, 1, 2), ("baseline", "replay"))
    rows = result_table(evidence, evidence.columns[0]).rows
    assert rows[1][-2].endswith("(Baseline: 20 whole images, one pair)")
    assert rows[1][-1] == "3"


def test_printed_numbers_stand_beside_measured_ones(tmp_path: Path) -> None:
    write_run(tmp_path, "cifar100-mini-bimae-full", 0, 60.0)
    evidence = evidence_of(tmp_path, (0,))
    (column,) = evidence.columns
    rows = {row[0]: row for row in result_table(evidence, column).rows}
    assert rows["+ detail branch"][1:4] == ["79.12", "68.40", "12.17"]
    assert rows["+ detail branch"][5] == "60.00"
    assert rows["+ generated replay"][1:6] == ["75.88", "64.35", "–", "–", "–"]
    assert "79.12 / 68.40 / 12.17" in short_table(evidence, column).rows[-1]
    assert "components,mini,full,published,last,68.4000,60.0000" in study_csv(evidence)
    assert "| + detail branch | 79.12 |" in study_markdown(evidence, "", "")


def test_all_that_a_method_carries_stands_beside_its_accuracy(tmp_path: Path) -> None:
    write_run(tmp_path, "cifar100-mini-gfr", 0, 40.0)
    path = tmp_path / "cifar100-mini-gfr" / "result.json"
    kept = {"network": 1_900_000, "generator": 1_600_000, "critic": 20_000}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"kept_bytes": kept}))
    study = STUDIES["memory-efficient"]
    runs = runs_of(study, "mini", (0,), ("gfr", "mrdc"), ["published"])
    evidence = Evidence(study, "mini", runs, tmp_path)
    (column,) = evidence.columns
    table = result_table(evidence, column)
    assert table.headers[:6] == ["System", "Avg, reported", "Last, reported", "Avg", "Last", "π"]
    assert table.headers[6:9] == ["Memory (KB)", "Other state (KB)", "Network (KB)"]
    gfr, mrdc = table.rows
    assert gfr[3:9] == ["68.00", "40.00", "4.00", "0.00", "1620.00", "1900.00"]
    assert mrdc[6:9] == ["–", "–", "–"]  # not run
    assert "KB" not in short_table(evidence, column).headers[0]


def test_a_folder_with_another_run_under_the_same_name_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path, "cifar100-mini-bimae-full", 0, 60.0)
    shutil.move(tmp_path / "cifar100-mini-bimae-full", tmp_path / "cifar100-mini-bimae-replay")
    with pytest.raises(InputError, match="other settings than the study's"):
        evidence_of(tmp_path, (0,))


def test_runs_in_bf16_are_named(tmp_path: Path) -> None:
    for name, precision in (("full", "bf16-mixed"), ("baseline", "32-true")):
        write_run(tmp_path, f"cifar100-mini-bimae-{name}", 0, 60.0)
        environment = {"acceleration": {"precision": precision}}
        path = tmp_path / f"cifar100-mini-bimae-{name}" / "environment.json"
        path.write_text(json.dumps(environment))
    both, one = evidence_of(tmp_path, (0,)), evidence_of(tmp_path, (0,), ("baseline",))
    assert precision_text(both) == "Trained in bf16: + detail branch."
    assert precision_text(both) in study_markdown(both, "", "")
    assert precision_text(one) == ""
    write_run(tmp_path, "cifar100-mini-bimae-full-seed-1", 1, 60.0)
    mixed = precision_text(evidence_of(tmp_path, (0, 1), ("full",)))
    assert mixed == "In bf16 with some seeds only: + detail branch."
    shown = [row[cost_table(both).headers.index("Precision")] for row in cost_table(both).rows]
    assert sorted(shown) == ["32-true", "bf16-mixed"]
