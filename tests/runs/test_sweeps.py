"""Claims about several runs in one folder."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest

from remnant.config import RunConfig
from remnant.errors import InputError
from remnant.runs import experiment, sweeps
from tests.support.command_line import SETTINGS, Command, Outcome, StopAt, tiny_config


def result_of(folder: Path) -> dict[str, object]:
    result = json.loads((folder / "result.json").read_text())
    timed = ("seconds", "images_per_second")
    return {name: value for name, value in result.items() if not any(one in name for one in timed)}


def places(outcome: Outcome) -> list[str]:
    """The lines that say which of several runs begins."""
    return [line for line in outcome.err.splitlines() if line.startswith("run ")]


def test_seeds_and_orders_are_crossed() -> None:
    configs = sweeps.expand(tiny_config(), ["1", "02"], ["identity", "seed:5"])
    assert configs is not None
    assert {name: (one.seed, one.stream.order) for name, one in configs.items()} == {
        "order-identity-seed-1": (1, "identity"),
        "order-identity-seed-2": (2, "identity"),
        "order-seed-5-seed-1": (1, "seed:5"),
        "order-seed-5-seed-2": (2, "seed:5"),
    }
    assert sweeps.expand(tiny_config(), [], []) is None


def test_recipes_and_settings_are_crossed_in_folders_with_readable_names() -> None:
    configs = [tiny_config("digits-er"), tiny_config("digits-icarl")]
    grid = {"method.first.optimizer.lr": [0.05, 0.1], "memory.selection": ["herding", "random"]}
    expanded = sweeps.expand(configs, ["3"], [], grid)
    assert expanded is not None
    assert len(expanded) == 8
    one = expanded["digits-icarl-lr-0.1-selection-random-seed-3"]
    assert (one.method.name, one.method.first.optimizer.lr, one.seed) == ("icarl", 0.1, 3)
    assert one.memory is not None
    assert one.memory.selection == "random"


def test_settings_that_end_alike_are_named_in_full() -> None:
    grid = {"method.first.optimizer.name": ["sgd"], "memory.codec.name": ["raw", "webp"]}
    expanded = sweeps.expand(tiny_config(), [], [], grid)
    assert expanded is not None
    assert "method.first.optimizer.name-sgd-memory.codec.name-webp" in expanded


@pytest.mark.parametrize("seeds", [["a"], ["-1"], ["1.5"], ["²"], ["1", "01"]])
def test_what_is_no_list_of_different_seeds_is_refused(seeds: list[str]) -> None:
    with pytest.raises(InputError, match="--seeds"):
        sweeps.expand(tiny_config(), seeds, [])


def test_two_seeds_give_two_folders_and_their_mean_and_deviation(
    command: Command, tmp_path: Path
) -> None:
    outcome = command("run", "digits-er", *SETTINGS, "--seeds", "1,2", "--out", "several")
    assert outcome.code == 0, outcome.err
    folder = tmp_path / "several"
    values = [
        json.loads((folder / f"seed-{seed}" / "result.json").read_text())["average_accuracy"]
        for seed in (1, 2)
    ]
    expected = f"{mean(values):.2f} ± {stdev(values):.2f}"
    assert expected in outcome.out
    assert places(outcome) == ["run 1 of 2: seed-1", "run 2 of 2: seed-2"]
    assert expected in (folder / "report.html").read_text()
    assert "all runs in several are finished" in command("resume", "several").sentence


def test_a_stopped_sweep_goes_on_as_if_it_had_not_stopped(command: Command, tmp_path: Path) -> None:
    configs = sweeps.expand(tiny_config(), ["1", "2"], [])
    assert configs is not None

    def run_and_stop(config: RunConfig, folder: Path) -> None:
        experiment.run(config, folder, watchers=(StopAt(1),))

    with pytest.raises(KeyboardInterrupt):
        sweeps.run_all(configs, tmp_path / "cut", run_and_stop)
    assert not (tmp_path / "cut" / "seed-2").exists()
    outcome = command("resume", "cut")
    assert outcome.code == 0
    assert places(outcome) == ["run 1 of 2: seed-1", "run 2 of 2: seed-2"]
    assert (tmp_path / "cut" / "report.html").exists()
    assert result_of(tmp_path / "cut" / "seed-2")["finished"] is True
    experiment.run(configs["seed-1"], tmp_path / "whole")
    assert result_of(tmp_path / "cut" / "seed-1") == result_of(tmp_path / "whole")


def test_nothing_is_left_of_runs_that_could_not_start(tmp_path: Path) -> None:
    def refuse(config: RunConfig, folder: Path) -> None:
        raise InputError("no data.")

    configs = {"seed-1": tiny_config()}
    with pytest.raises(InputError, match="no data"):
        sweeps.run_all(configs, tmp_path / "new", refuse)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no data"):
        sweeps.run_all(configs, tmp_path / "empty", refuse)
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_a_run_that_began_is_kept_when_a_later_one_cannot_start(tmp_path: Path) -> None:
    def refuse_the_second(config: RunConfig, folder: Path) -> None:
        if folder.name == "b":
            raise InputError("no data.")
        folder.mkdir()

    told: list[str] = []
    outcome = sweeps.run_all(
        {"a": tiny_config(), "b": tiny_config()},
        tmp_path,
        refuse_the_second,
        lambda name, error: told.append(f"{name}: {error}"),
    )
    assert told == ["b: no data."]
    assert list(outcome.failed) == ["b"]
    assert outcome.page is None  # nothing has finished
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "sweep.json"]


def test_a_sweep_into_a_folder_in_use_deletes_nothing(command: Command, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "inner").mkdir(parents=True)
    files = [project / ".draft.tmp", project / "inner" / ".sweep.json.ab12cd34.tmp"]
    for path in files:
        path.write_text("precious")
    outcome = command("run", "digits-er", *SETTINGS, "--seeds", "1,2", "--out", "project")
    assert "is not empty" in outcome.sentence
    assert [path.read_text() for path in files] == ["precious", "precious"]


def test_a_run_that_fails_is_reported_and_the_others_go_on(
    command: Command, tmp_path: Path
) -> None:
    grid = ("--grid", "method.first.optimizer.weight_decay=1e30,0")
    outcome = command("run", "digits-er", *SETTINGS, *grid, "--out", "several")
    assert outcome.code == 1
    assert "remnant: weight_decay-1e+30 failed: " in outcome.err
    assert "To try them again: remnant resume several" in outcome.err
    assert result_of(tmp_path / "several" / "weight_decay-0")["finished"] is True
    assert (tmp_path / "several" / "report.html").exists()
    again = command("resume", "several")
    assert again.code == 1
    assert places(again) == ["run 1 of 1: weight_decay-1e+30"]  # of what is left
    assert "weight_decay-1e+30 failed" in again.err


@pytest.mark.parametrize("error", [KeyError("x"), AssertionError("y"), OSError(13, "Denied")])
def test_whatever_stops_one_run_does_not_stop_the_others(error: Exception, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    tried = []

    def fail(_: Path) -> None:
        raise error

    runs = {"a": fail, "b": tried.append}
    assert sweeps._try_each(runs, tmp_path, None) == {"a": error}
    assert tried == [tmp_path / "b"]


def test_on_several_processes_a_run_that_fails_ends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise InputError("the loss is not finite")

    monkeypatch.setattr(sweeps, "have_met", lambda: True)
    with pytest.raises(InputError, match="not finite"):
        sweeps._try_each({"a": fail, "b": fail}, tmp_path, None)


@pytest.mark.parametrize(
    ("value", "name"),
    [("../../tmp/x", "tmp-x"), ("/etc", "etc"), ("..", "none"), (-1, "-1"), (0.5, "0.5")],
)
def test_a_value_is_a_folder_of_its_own(value: Any, name: str) -> None:
    assert sweeps.as_folder_name(value) == name


def test_a_full_disk_stops_all_runs(tmp_path: Path) -> None:
    def fail(_: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        sweeps._try_each({"a": fail, "b": fail}, tmp_path, None)


def test_a_finished_run_without_its_page_gets_it_when_a_sweep_goes_on(
    command: Command, tmp_path: Path
) -> None:
    command("run", "digits-er", *SETTINGS, "--seeds", "1,2", "--out", "several")
    page = tmp_path / "several" / "seed-1" / "report.html"
    page.unlink()
    assert command("resume", "several").code == 0
    assert page.exists()


def test_several_recipes_run_into_one_folder_with_one_table(
    command: Command, tmp_path: Path
) -> None:
    outcome = command("run", "digits-er", "digits-lwf", *SETTINGS, "--out", "both")
    assert outcome.code == 0, outcome.err
    folders = {path.name for path in (tmp_path / "both").iterdir() if path.is_dir()}
    assert folders == {"digits-er", "digits-lwf"}
    assert [line.split()[0] for line in outcome.out.splitlines() if "FLOP" not in line][-3:-1] == [
        "er", "lwf",
    ]  # fmt: skip
