"""The table of imports and the other promises that hold for the code as a whole."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import remnant
from tests.support.package_matrix import LEAVES, MATRIX, SOURCE

FILES = sorted(SOURCE.rglob("*.py"))


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


TREES = {path: ast.parse(path.read_text()) for path in FILES}


def test_imports_point_one_way() -> None:
    wrong = []
    for path, tree in TREES.items():
        part = part_of(module_of(path))
        assert part in LEAVES or part in MATRIX, f"{part} has no place in the matrix of packages"
        wrong += [(name_of(path), one) for one in imports_of(tree) if not is_allowed(part, one)]
    assert wrong == []


def test_the_matrix_allows_nothing_that_no_module_needs() -> None:
    used: dict[str, set[str]] = {part: set() for part in MATRIX}
    for path, tree in TREES.items():
        for module in imports_of(tree):
            used.setdefault(part_of(module_of(path)), set()).update({module, part_of(module)})
    unused = [(part, one) for part, others in MATRIX.items() for one in others - used[part]]
    assert unused == []


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


def test_only_the_command_line_imports_inside_functions() -> None:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    lazy = ("__init__", "learner")  # `Learner` needs scikit-learn, which a prediction does not
    found = [
        (name_of(path), module)
        for path, tree in TREES.items()
        if part_of(module_of(path)) != "cli" and module_of(path) not in lazy
        for node in ast.walk(tree)
        if isinstance(node, functions)
        for module in imports_of(node)
    ]
    assert found == []


def test_no_private_name_of_another_object_is_used() -> None:
    own = ("self", "cls", "os", "torch", "block")  # os._exit, torch._dynamo: there is no other way
    found = [
        f"{name_of(path)}:{node.lineno}: {ast.unparse(node)}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and re.fullmatch(r"_[a-z]\w*", node.attr)
        and ast.unparse(node.value).split(".")[0] not in own
        and not _is_of_own_class(tree, node)
    ]
    assert found == []


def _is_of_own_class(tree: ast.Module, node: ast.Attribute) -> bool:
    """Whether a class of the same file has this name: a classmethod may set what it owns."""
    names = {
        inner.attr
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef)
        for inner in ast.walk(one)
        if isinstance(inner, ast.Attribute) and ast.unparse(inner.value) in ("self", "cls")
    }
    return node.attr in names


def test_the_public_names_are_those_of_all() -> None:
    assert dir(remnant) == sorted(remnant.__all__)
    assert all(getattr(remnant, name) is not None for name in remnant.__all__)


def test_reports_are_read_without_torch() -> None:
    code = "import remnant.reports, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def called_names(tree: ast.Module) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_nothing_is_unpickled_and_only_the_command_line_prints() -> None:
    forbidden = {"torch.load", "torch.save", "np.load", "numpy.load", "eval", "exec"}
    pickles = re.compile(r"^\s*(import|from) (pickle|joblib|dill|shelve)\b", re.M)
    for path, tree in TREES.items():
        called = called_names(tree)
        assert not called & forbidden, name_of(path)
        assert "print" not in called or path.parent.name == "cli", name_of(path)
        assert not pickles.search(path.read_text()), name_of(path)


def test_only_the_command_line_and_the_terminal_have_a_console() -> None:
    console = re.compile(r"^\s*(import|from) rich(\.console| import .*\bconsole)\b", re.M)
    having = {path.parent.name for path in FILES if console.search(path.read_text())}
    assert having == {"cli", "terminal"}


def test_errors_are_named_and_none_is_swallowed() -> None:
    for path, node in ((path, node) for path, tree in TREES.items() for node in ast.walk(tree)):
        if isinstance(node, ast.ExceptHandler):
            kinds = ast.unparse(node.type) if node.type else ""
            is_passed_on = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
            assert kinds not in ("", "Exception"), f"{path}:{node.lineno}: name the errors"
            assert kinds != "BaseException" or is_passed_on, f"{path}:{node.lineno}: pass it on"
        if isinstance(node, ast.Raise) and node.exc is not None:
            assert ast.unparse(node.exc).split("(")[0] not in ("Exception", "BaseException")


def test_departures_and_choices_can_be_found_by_one_search() -> None:
    forms = {r"\bdepart(?:s|ure) from": "Departs from", r"\bchosen: \S": "Chosen:"}
    for path in FILES:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for pattern, right in forms.items():
                found = re.search(pattern, line, re.IGNORECASE)
                assert found is None or found[0].startswith(right), f"{path}:{number}: {line}"


def test_every_module_says_what_it_is_and_has_an_owner() -> None:
    for path, tree in TREES.items():
        assert ast.get_docstring(tree) or path.name == "__main__.py", name_of(path)
        assert path.stem not in ("utils", "common", "misc", "helpers"), name_of(path)
        froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert "*" not in {name.name for node in froms for name in node.names}, name_of(path)


def imported_tests(tree: ast.Module) -> list[str]:
    """What is imported of a test module, or from one, by its whole name."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = "tests." * bool(node.level) + (node.module or "")
            names += [f"{package}.{name.name}" for name in node.names]
    return [name for name in names if re.match(r"tests\..*\btest_", name)]


def test_no_test_is_imported() -> None:
    """What several tests need is in tests/support, or a fixture of their folder's conftest.py."""
    tests = Path(__file__).parent
    found = [
        (str(path.relative_to(tests)), name)
        for path in sorted(tests.rglob("*.py"))
        for name in imported_tests(ast.parse(path.read_text()))
    ]
    assert found == []


def test_the_check_of_imported_tests_can_fail() -> None:
    for line in (
        "from tests.learner.test_inputs import bomb",
        "from tests.learner import test_inputs",
        "import tests.learner.test_inputs as inputs",
        "from .test_inputs import bomb",
        "from tests import test_files",
    ):
        assert imported_tests(ast.parse(line)), line
    assert not imported_tests(ast.parse("from tests.support.broken_pictures import bomb"))
