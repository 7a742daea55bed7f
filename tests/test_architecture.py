"""The table of imports and the other promises that hold for the code as a whole."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import remnant

SOURCE = Path(remnant.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# What each part may import, itself apart. Parts above the line know little; those below compose.
LEAVES = {"contracts", "losses", "metrics", "models"}
ALLOWED: dict[str, set[str]] = {
    **{leaf: set() for leaf in LEAVES},
    "files": {"contracts"},
    "class_orders": {"contracts"},
    "data": {"contracts", "files"},
    "stream": {"contracts", "class_orders"},
    "rand_augment": set(),
    "augment": {"contracts", "rand_augment"},
    "memory": {"contracts", "files"},
    "methods": {"contracts", "memory", "models", "losses"},
    "training": {"contracts", "files", "augment", "metrics", "methods.base"},
    # files only where something is written: it imports torch, and reading must not.
    "reports": {"metrics", "files"},
}
COMPOSITION = [  # each may import everything above and before it
    "explanations",
    "config",
    "recipes",
    "costs",
    "learning",
    "journal",
    "pictures",
    "experiment",
    "catalogue",
    "estimates",
    "trials",
    "planner",
    "progress",
    "displays",
    "sweeps",
    "bench",
    "learner",
    "serving",
    "api",
    "cli",
]


def part_of(module: str) -> str:
    """`remnant.data.cifar` belongs to `data`; the package itself is nameless."""
    return module.split(".")[1] if "." in module else ""


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(["remnant", *(part for part in parts if part != "__init__")])


def imports_of(path: Path) -> Iterator[str]:
    """Every module of remnant that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "remnant")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            if node.module == "remnant":
                yield from (f"remnant.{name.name}" for name in node.names)
            elif node.module and node.module.startswith("remnant."):
                yield node.module


def is_allowed(part: str, module: str) -> bool:
    target = part_of(module)
    if target in ("", "__version__", part):
        return True
    if part not in ALLOWED:
        index = COMPOSITION.index(part)
        return target in ALLOWED or target in COMPOSITION[:index]
    return any(
        module == f"remnant.{one}" or module.startswith(f"remnant.{one}.") for one in ALLOWED[part]
    )


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(module_of(path))
    if part in ("", "__main__"):
        return
    assert part in ALLOWED or part in COMPOSITION, f"{part} has no place in the table of imports"
    wrong = [module for module in imports_of(path) if not is_allowed(part, module)]
    assert not wrong, f"{part} must not import {wrong}"


def test_the_check_of_imports_can_fail() -> None:
    assert not is_allowed("models", "remnant.losses")
    assert not is_allowed("training", "remnant.methods.er")
    assert not is_allowed("reports", "remnant.contracts")
    assert not is_allowed("config", "remnant.experiment")
    assert is_allowed("training", "remnant.methods.base")


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
