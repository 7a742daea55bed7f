"""docs/reference and the schema files say what the code says, and the files fit the schemas."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest

from benchmarks.reference.field_comments import field_comments, field_groups
from benchmarks.reference.file_page import ARRAYS, ENVIRONMENT, EVENT_LINES, RUN_FILES
from benchmarks.reference.setting_page import settings_page
from benchmarks.write_reference import ROOT, documents
from remnant.archives import read_archive
from remnant.cli import app
from remnant.learner.store import KIND, VERSION
from remnant.memory import CODECS
from remnant.methods import METHODS
from remnant.recipes import load_recipe
from remnant.runs import run_folder
from remnant.runs.environment import write_environment
from remnant.runs.events import read_events
from remnant.settings import Settings
from remnant.training.processes import TrainingConfig
from tests.support.command_line import commander

REMEDY = "run python -m benchmarks.write_reference"
OLD_RUN = ROOT / "tests" / "runs" / "old_run"
STORE = ROOT / "tests" / "learner" / "old_stores" / "bimae.remnant"


@pytest.fixture(scope="module")
def made() -> dict[Path, str]:
    return documents()


def schema(name: str) -> jsonschema_rs.Validator:
    path = ROOT / "src" / "remnant" / "schemas" / f"{name}.json"
    return jsonschema_rs.validator_for(json.loads(path.read_bytes()))


def test_every_page_and_schema_is_what_the_code_says(made: dict[Path, str]) -> None:
    drifted = [path.name for path, text in made.items()
               if not path.exists() or path.read_text() != text]  # fmt: skip
    assert drifted == [], REMEDY


def test_a_page_drifts_when_a_default_changes(
    made: dict[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / "docs" / "reference" / "settings.md"
    assert made[page].startswith(settings_page())
    monkeypatch.setattr(TrainingConfig.model_fields["devices"], "default", 2)
    assert not made[page].startswith(settings_page())


def test_comments_of_fields_are_read() -> None:
    class Example(Settings):
        """Of a test."""

        # Above,
        # over two lines.
        one: int = 1  # and beside
        two: int = 2

        # A group.

        three: int = 3  # within

    assert field_comments(Example) == {"one": "Above, over two lines. and beside",
                                       "three": "within"}  # fmt: skip
    assert field_groups(Example) == {"three": "A group"}


def test_every_command_method_and_codec_is_on_its_page(made: dict[Path, str]) -> None:
    pages = {path.stem: text for path, text in made.items() if path.suffix == ".md"}
    assert all(f"## {name}\n" in pages["methods"] for name in METHODS)
    assert all(f"## {name}\n" in pages["codecs"] for name in CODECS)
    commands = [name for name in app if not name.startswith("-") and name != "data"]
    assert all(f"## remnant {name}\n" in pages["commands"] for name in commands)


# ------------------------------------------------------------------------------------------- files


def test_every_file_of_a_run_folder_is_on_the_page() -> None:
    described = {name.partition("/")[0] for name in RUN_FILES}
    assert {path.name for path in OLD_RUN.iterdir()} <= described
    names = {value for name, value in vars(run_folder).items()
             if name.isupper() and isinstance(value, str)}  # fmt: skip
    assert names - {run_folder.MEMORY_PICTURE, run_folder.SWEEP} <= described


def test_the_arrays_of_a_run_folder_are_on_the_page() -> None:
    for kind, described in ARRAYS.items():
        for path in [OLD_RUN / kind, *sorted((OLD_RUN / kind).glob("*.safetensors"))]:
            if path.is_file():
                arrays, _ = read_archive(path, path.parent.name if path.parent != OLD_RUN
                                         else path.stem, 1)  # fmt: skip
                words = " ".join(described)
                assert all(name in words or "..." in words for name in arrays)


def test_the_entries_of_environment_and_events_are_on_the_page(tmp_path: Path) -> None:
    write_environment(tmp_path, TrainingConfig())
    assert set(json.loads((tmp_path / "environment.json").read_bytes())) == set(ENVIRONMENT)
    for event in read_events(OLD_RUN / "events.jsonl"):
        assert all(f"`{key}`" in EVENT_LINES[event["event"]] for key in set(event) - {"event"})


# ----------------------------------------------------------------------------------------- schemas


def test_runs_on_file_fit_the_schemas() -> None:
    config, result = schema("config"), schema("result")
    for folder in sorted((ROOT / "docs" / "runs").iterdir()):
        config.validate(json.loads((folder / "config.json").read_bytes()))
        result.validate(json.loads((folder / "result.json").read_bytes()))


def test_a_recipe_of_every_method_fits_the_schema() -> None:
    config = schema("config")
    for name in METHODS:
        config.validate(load_recipe(f"digits-{name}").model_dump(mode="json"))


@pytest.mark.parametrize(
    ("key", "value"), [("method.first.epochs", 0), ("method.nonsense", 1), ("data.workers", "two")]
)
def test_a_wrong_config_does_not_fit(key: str, value: object) -> None:
    values = load_recipe("digits-er").model_dump(mode="json")
    *parents, name = key.split(".")
    place = values
    for parent in parents:
        place = place[parent]
    place[name] = value
    assert not schema("config").is_valid(values)


def test_the_header_of_a_store_fits_the_schema() -> None:
    _, metadata = read_archive(STORE, KIND, VERSION)
    whole = {"format": KIND, "version": VERSION, "digest": "", "metadata": metadata}
    schema("store").validate(whole)
    assert not schema("store").is_valid(whole | {"version": 2})


def test_the_command_prints_the_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = commander(monkeypatch, capsys)
    for name in ("result", "config", "store"):
        printed = command("schema", name).out
        assert printed == (ROOT / "src" / "remnant" / "schemas" / f"{name}.json").read_text()
    assert "run" in command("schema", "run").sentence
