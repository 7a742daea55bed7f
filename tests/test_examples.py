"""The examples, made tiny: they run, and they tell what they promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.store_kills import kill_and_repeat
from remnant.learner import Learner

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_digits_are_taught_in_two_steps(tmp_path: Path) -> None:
    arguments = ("--epochs", "1", "--width", "16", "--codec", "coded-patches")
    told = run("digits_in_two_steps.py", tmp_path, *arguments)
    assert told.count("right on 0 to 4: ") == 2
    assert told.count("right on 5 to 9: ") == 1
    assert Learner.load(tmp_path / "digits.remnant").classes_.tolist() == list(range(10))
    with Image.open(tmp_path / "digits.png") as picture:
        assert picture.height > 20 * 64  # two rows for every digit


@pytest.mark.slow
def test_a_data_set_of_ones_own_is_learned_in_two_tasks(tmp_path: Path) -> None:
    assert "% right after 2 tasks" in run("own_dataset.py", tmp_path, "--epochs", "1")


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((EXAMPLES / "photos_in_a_minute.ipynb").read_text())
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    told = capsys.readouterr().out
    assert "['flower' 'temple' 'digit'] 100 %" in told
    assert "as before it was taught: True" in told
    assert Learner.load("photos.remnant").classes_.tolist() == ["flower", "temple"]


@pytest.mark.slow
@pytest.mark.cifar100
def test_folders_of_cifar_are_taught_in_three_updates(tmp_path: Path) -> None:
    if not (Path(os.environ.get("REMNANT_DATA", "")) / "cifar-100-binary").is_dir():
        pytest.skip("CIFAR-100 is not under $REMNANT_DATA")
    arguments = ("--epochs", "1", "--images", "10", "--out", "cifar")
    told = run("cifar_folders.py", tmp_path, *arguments)
    assert [line[:9] for line in told.splitlines()[:3]] == ["update 1:", "update 2:", "update 3:"]
    assert "9 classes" in told
    learner = Learner.load(tmp_path / "cifar" / "nine.remnant")
    assert learner.classes_.tolist()[:3] == ["apple", "bicycle", "leopard"]
    assert [one["images"] for one in learner.history_] == [30, 30, 30]


@pytest.mark.slow
def test_a_store_outlives_a_kill(tmp_path: Path) -> None:
    outcome = kill_and_repeat(tmp_path, num_kills=1, seed=0)
    assert len(outcome.stages) == 1
    assert outcome.problems == []
