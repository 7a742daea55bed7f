"""The lock, the list of what a wheel is tested with, and what the workflow may do."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def lock_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock", ROOT / ".ci" / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LOCK = lock_script()
LOCKED = LOCK.read_lock((ROOT / "requirements.lock").read_text())


def test_every_dependency_is_locked_within_its_bounds() -> None:
    versions = {name: version for name, version, _ in LOCKED}
    extras = PROJECT["project"]["optional-dependencies"]
    for text in (
        *PROJECT["project"]["dependencies"],
        *(one for some in extras.values() for one in some),
    ):
        wanted = Requirement(text)
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name == "torch":
            assert wanted.specifier.contains(LOCK.torch_version())
        else:
            assert wanted.specifier.contains(versions[name]), f"run python .ci/lock.py: {text}"


def test_no_version_with_a_known_hole_is_allowed() -> None:
    """Advisories on what reads bytes from strangers; each floor is the first version without."""
    mended = {
        "python-multipart": "0.0.27",
        "h11": "0.16",
        "starlette": "1.3.1",
        "pillow": "12.3",
        "onnx": "1.21",
        "jinja2": "3.1.6",
        "lightning-fabric": "2.6.6",
        "setuptools": "78.1.1",
    }
    extras = PROJECT["project"]["optional-dependencies"]
    everything = [
        *PROJECT["project"]["dependencies"],
        *(one for some in extras.values() for one in some),
    ]
    wanted = [Requirement(text) for text in everything]
    for name, version in mended.items():
        floors = [
            min(str(one).strip(">=") for one in each.specifier if one.operator == ">=")
            for each in wanted
            if each.name == name
        ]
        assert floors
        assert all(Version(floor) >= Version(version) for floor in floors), name


def test_the_lock_names_versions_and_digests_and_nothing_else() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert text == LOCK.lock_text(LOCKED)
    assert all(len(digest) == 64 for _, _, digest in LOCKED)
    assert "://" not in text


def test_the_list_of_components_is_that_of_the_lock() -> None:
    assert (ROOT / "sbom.cdx.json").read_text() == LOCK.sbom_text(LOCKED, LOCK.torch_version())
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["sbom-files"] == ["sbom.cdx.json"]


def test_the_workflow_may_only_read_and_runs_pinned_actions() -> None:
    for path in (ROOT / ".github" / "workflows").iterdir():
        text = path.read_text()
        assert "\npermissions: {}\n" in text
        granted = re.findall(r"^    permissions:\n((?:      .*\n)+)", text, re.MULTILINE)
        assert granted
        assert set(granted) == {"      contents: read\n"}
        used = re.findall(r"uses: (\S+)", text)
        assert used
        assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one) for one in used)
        assert text.count("persist-credentials: false") == text.count("actions/checkout@")
