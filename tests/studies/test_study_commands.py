"""`remnant reproduce` and `remnant study`, as a user types them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from remnant.studies import STUDIES
from remnant.studies.study_folder import StudyFolder, StudyRequest, open_study
from tests.support.command_line import Command

RUNS = Path(__file__).parents[2] / "docs" / "runs"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Runs of a study that were carried out before."""
    names = ("baseline", "replay", "reconstruction", "full")
    for name in names:
        shutil.copytree(
            RUNS / f"cifar100-mini-bimae-{name}", tmp_path / "runs" / f"cifar100-mini-bimae-{name}"
        )
    return tmp_path


def test_what_was_run_before_becomes_a_page_at_once(command: Command, out: Path) -> None:
    shown = command("reproduce", "components", "--columns", "published", "--out", out)
    assert shown.code == 0, shown.err
    assert "4 runs, 4 done, 0 to do" in shown.err
    assert "opposite, one run" in shown.out
    folder = out / "components-mini"
    page = (folder / "index.html").read_text()
    assert "remnant reproduce components --scale mini --columns published" in page
    assert "Not run yet" not in page
    assert "<svg" in page
    assert "Equal for all rows: steps of the main phase; tuning phases may differ. Seed 0." in page
    assert "mean ± standard deviation over seeds alone;" in page
    text = (folder / "study.md").read_text()
    assert "`remnant reproduce components --scale mini --columns published`" in text
    assert "Seed 0." in text
    assert {path.name for path in folder.iterdir()} == {
        "study.json", "index.html", "study.md", "table.csv", "table.tex",
    }  # fmt: skip
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in set(before) - {"study.json"}:
        (folder / name).unlink()
    assert command("study", folder).code == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_the_page_names_what_was_trained_in_bf16(command: Command, out: Path) -> None:
    path = out / "runs" / "cifar100-mini-bimae-full" / "environment.json"
    environment = json.loads(path.read_bytes()) | {"acceleration": {"precision": "bf16-mixed"}}
    path.write_text(json.dumps(environment))
    command("reproduce", "components", "--columns", "published", "--out", out)
    page = (out / "components-mini" / "index.html").read_text()
    _, _, runs = page.partition('<h2 id="runs">')
    assert "Trained in bf16: + detail branch." in runs.partition("<table")[0]


def test_the_list_names_every_study(command: Command) -> None:
    shown = command("reproduce", "--list")
    assert shown.code == 0
    assert "detail-domain" in shown.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["component"], "Did you mean components?"),
        ([], "name a study"),
        (["components", "--rows", "ful"], "Did you mean full?"),
        (["components", "--columns", "9"], "it has published, symmetric"),
        (["components", "--seeds", "a"], "whole numbers"),
        (["components", "--seeds", "1,,2"], "commas between"),
        (["imagenet-subset", "--scale", "lite"], "it has smoke, mini, paper"),
        (["components", "--data-root", "nowhere"], "is not under nowhere"),
        (["components", "--jobs", "0"], "--jobs must be at least 1"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    command: Command, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    assert sentence in command("reproduce", *arguments, "--out", tmp_path / "out").sentence
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_study_is_refused(command: Command, out: Path) -> None:
    command("reproduce", "components", "--columns", "published", "--out", out)
    (out / "components-mini").rename(out / "mask-ratio-mini")
    said = command("reproduce", "mask-ratio", "--out", out).sentence
    assert "already holds a study with other settings or of other images." in said
    assert "must be the folder of a study" in command("study", out).sentence


def test_out_must_be_a_folder(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = command("reproduce", "components", "--out", tmp_path / "file").sentence
    assert said.startswith("--out must be a folder")


def test_a_renamed_study_is_written_where_it_is(command: Command, out: Path) -> None:
    command("reproduce", "components", "--columns", "published", "--out", out)
    (out / "components-mini").rename(out / "mine")
    (out / "mine" / "index.html").unlink()
    assert command("study", out / "mine").code == 0
    assert (out / "mine" / "index.html").exists()
    assert not (out / "components-mini").exists()


def test_a_full_disk_is_noticed_before_anything_runs(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    said = command("reproduce", "detail-domain", "--scale", "smoke", "--out", tmp_path).sentence
    assert "2 runs need about" in said
    assert "1000 B are free" in said
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_dry_run_tells_what_is_done_and_what_the_rest_takes(command: Command, out: Path) -> None:
    shown = command("reproduce", "detail-domain", "--columns", "published", "--dry-run",
                    "--out", out)  # fmt: skip
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert any("bimae-full" in line and "done" in line for line in lines)
    assert any("bimae-spatial" in line and "to do" in line for line in lines)
    assert "2 runs, 1 done; left: " in lines[-1]
    assert not (out / "detail-domain-mini").exists()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_study_runs_at_smoke_scale(command: Command, tmp_path: Path) -> None:
    shown = command("reproduce", "all", "--scale", "smoke", "--out", tmp_path)
    assert shown.code == 0, shown.err
    assert "Not run yet" not in "".join(
        page.read_text() for page in tmp_path.glob("*-smoke/index.html")
    )


def test_a_second_part_of_a_study_joins_its_page_but_runs_alone(tmp_path: Path) -> None:
    def ask(row: str, column: str) -> StudyFolder:
        asked = StudyRequest(study="budgets", scale="mini", rows=[row], columns=[column])
        opened = open_study(STUDIES["budgets"], asked, tmp_path)
        opened.write_request()
        return opened

    ask("er", "6KiB")
    opened = ask("best", "60KiB")
    assert [(run.row, run.column) for run in opened.asked] == [("best", "60KiB")]
    assert {(run.row, run.column) for run in opened.runs} == {
        (row, column) for row in ("er", "best") for column in ("6KiB", "60KiB")
    }
