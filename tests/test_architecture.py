"""The table of imports and the other promises that hold for the code as a whole."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import remnant

SOURCE = Path(remnant.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# The root holds leaves, which import leaves alone, and `config`, which composes.
LEAVES = {
    "_version", "archives", "errors", "files", "images", "losses", "metrics", "phases",
    "randomness", "registry", "settings",
}  # fmt: skip
# Which packages a package may import, leaves apart; a dot narrows that to one module.
MATRIX: dict[str, set[str]] = {
    "data": set(),
    "views": set(),
    "models": set(),
    "memory": set(),
    "methods": {"memory", "models"},
    "training": {"memory", "methods", "views"},
    "config": {"data", "memory", "methods", "training", "views"},
    "recipes": {"config", "data", "memory", "methods", "views"},
    "reports": {"runs.run_folder"},
    "planning": {"config", "data", "memory", "methods", "training"},
    "terminal": {"reports", "training"},
    "runs": {
        "config", "data", "methods", "planning", "recipes", "reports", "terminal", "training",
    },
    "learner": {
        "config", "data", "memory", "methods", "models", "recipes", "reports", "runs", "terminal",
        "training", "views",
    },
    "serving": {"data", "learner", "memory", "reports", "terminal", "training"},
    "bench": {"memory", "methods", "models", "planning", "runs", "training", "views"},
    "cli": {
        "bench", "config", "data", "learner", "memory", "methods", "planning", "recipes", "reports",
        "runs", "serving", "terminal",
    },
    "testing": {"memory", "methods", "training", "views"},
    "__init__": {"data", "learner", "memory", "methods", "recipes", "runs"},
    "__main__": {"cli"},
}  # fmt: skip


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "__init__"


def part_of(module: str) -> str:
    return module.partition(".")[0]


def imports_of(node: ast.AST) -> Iterator[str]:
    """What is imported from remnant, without that name."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import):
            names = [name.name for name in inner.names]
        elif isinstance(inner, ast.ImportFrom) and inner.module is not None:
            # `from remnant import files` imports a module, `from remnant.files import ...` too.
            whole = inner.module == "remnant"
            names = [f"remnant.{name.name}" for name in inner.names] if whole else [inner.module]
        else:
            continue
        yield from (name[8:] for name in names if name.startswith("remnant."))


def is_allowed(part: str, module: str) -> bool:
    target = part_of(module)
    if target in LEAVES or target == part:
        return True
    return part not in LEAVES and bool({target, module} & MATRIX[part])


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(module_of(path))
    assert part in LEAVES or part in MATRIX, f"{part} has no place in the matrix of packages"
    found = imports_of(ast.parse(path.read_text()))
    wrong = [module for module in found if not is_allowed(part, module)]
    assert not wrong, f"{part} must not import {wrong}"


def test_the_check_of_imports_can_fail() -> None:
    assert not is_allowed("models", "memory")
    assert not is_allowed("losses", "models.vit")
    assert not is_allowed("training", "runs.experiment")
    assert not is_allowed("reports", "runs.experiment")
    assert is_allowed("reports", "runs.run_folder")
    assert is_allowed("training", "methods.base")


def test_module_names_are_unique() -> None:
    names = Counter(path.stem for path in FILES if path.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_the_command_line_imports_inside_functions(path: Path) -> None:
    if part_of(module_of(path)) in ("cli", "__init__"):
        return
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    inside = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, functions)]
    assert [module for node in inside for module in imports_of(node)] == []


def test_the_public_names_are_those_of_all() -> None:
    assert dir(remnant) == sorted(remnant.__all__)
    assert all(getattr(remnant, name) is not None for name in remnant.__all__)


def test_reports_are_read_without_torch() -> None:
    code = "import remnant.reports, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def called_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_is_unpickled_and_only_the_command_line_prints(path: Path) -> None:
    called = set(called_names(path))
    assert not called & {"torch.load", "torch.save", "np.load", "numpy.load", "eval", "exec"}
    assert "print" not in called or path.parent.name == "cli"
    assert not re.search(r"^\s*(import|from) (pickle|joblib|dill|shelve)\b", path.read_text(), re.M)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_errors_are_named_and_none_is_swallowed(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            kinds = ast.unparse(node.type) if node.type else ""
            is_passed_on = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
            assert kinds not in ("", "Exception"), f"{path}:{node.lineno}: name the errors"
            assert kinds != "BaseException" or is_passed_on, f"{path}:{node.lineno}: pass it on"
        if isinstance(node, ast.Raise) and node.exc is not None:
            assert ast.unparse(node.exc).split("(")[0] not in ("Exception", "BaseException")


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_departures_and_choices_can_be_found_by_one_search(path: Path) -> None:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for word in ("departs from", "departure from"):
            found = re.search(word, line, re.IGNORECASE)
            assert found is None or found[0] == "Departs from", f"{path}:{number}: {line.strip()}"
        found = re.search(r"\bchosen: \S", line, re.IGNORECASE)
        assert found is None or found[0].startswith("Chosen:"), f"{path}:{number}: {line.strip()}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_module_says_what_it_is_and_has_an_owner(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree) or path.name == "__main__.py"
    assert path.stem not in ("utils", "common", "misc", "helpers")
    assert "*" not in {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
