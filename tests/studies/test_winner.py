"""The sentence at the end: how each ended, what it kept, and whether that may be chance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remnant.studies.evidence import Evidence
from remnant.studies.winner import ranking, verdict
from tests.support.study_evidence import evidence_of, write_run


def told(evidence: Evidence) -> str:
    return verdict(ranking(evidence, evidence.columns[0]))


def test_a_clear_winner_is_named_with_its_distance(tmp_path: Path) -> None:
    write_run(tmp_path, "cifar100-mini-bimae-full", 0, 60.0)
    write_run(tmp_path, "cifar100-mini-bimae-baseline", 0, 50.0)
    assert told(evidence_of(tmp_path, (0,))) == (
        "At the end, on all classes: + detail branch 60.0 % (no images kept); "
        "Baseline: 20 whole images 50.0 % (no images kept). "
        "+ detail branch is first, 10.0 ± 4.3 points above Baseline: 20 whole images "
        "(one run each)."
    )


def test_what_each_kept_is_a_mean_over_its_runs(tmp_path: Path) -> None:
    for seed, end, counts in ((0, "", [3, 4]), (1, "-seed-1", [5, 4])):
        for row in ("full", "baseline"):
            write_run(tmp_path, f"cifar100-mini-bimae-{row}{end}", seed, 60.0)
        path = tmp_path / f"cifar100-mini-bimae-full{end}" / "result.json"
        memory = {"used_bytes": 1024 * sum(counts), "exemplars_per_class": counts}
        path.write_text(json.dumps(json.loads(path.read_text()) | {"memory": memory}))
    assert "+ detail branch 60.0 % (8 images kept, 8.0 KiB)" in told(evidence_of(tmp_path, (0, 1)))


@pytest.mark.parametrize("lead", [0.0, 2.0])
def test_a_lead_that_may_be_chance_is_called_so(tmp_path: Path, lead: float) -> None:
    write_run(tmp_path, "cifar100-mini-bimae-full", 0, 50.0 + lead)
    write_run(tmp_path, "cifar100-mini-bimae-baseline", 0, 50.0)
    assert "is not safely ahead of" in told(evidence_of(tmp_path, (0,)))


def test_equal_leads_on_the_same_images_are_no_proof(tmp_path: Path) -> None:
    for seed in (0, 1):
        end = f"-seed-{seed}" if seed else ""
        write_run(tmp_path, f"cifar100-mini-bimae-full{end}", seed, 53.0)
        write_run(tmp_path, f"cifar100-mini-bimae-baseline{end}", seed, 50.0)
    shown = told(evidence_of(tmp_path, (0, 1)))
    assert shown.endswith("Baseline: 20 whole images: there are too few test images to tell.")


def test_rows_without_runs_take_no_part(tmp_path: Path) -> None:
    write_run(tmp_path, "cifar100-mini-bimae-full", 0, 60.0)
    evidence = evidence_of(tmp_path, (0,))
    assert [cell.row.name for cell in ranking(evidence, evidence.columns[0])] == ["full"]
