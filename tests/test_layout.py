"""Where tests lie and what each must have: a folder of src, at most 500 lines, something that is asserted."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.support.processes import ROOT

TESTS, SOURCE = ROOT / "tests", ROOT / "src" / "torchparity"
MOST_LINES = 500
# Folders that stand for no package: what holds for every model, what tests share, and programs that are run.
FOLDERS_OF_THEIR_OWN = {"seeds", "properties", "support", "fuzz", "faultbed", "examples", "client"}
PROGRAMS = Path("running", "scripts")
PROPERTIES = {"test_inert.py", "test_true.py", "test_complete.py", "test_nothing_lost.py"}
# Functions that assert on behalf of a test.
ASSERTING = {"assert_same", "assert_as_defined", "assert_lists_are_measured", "assert_sketch", "assert_as_shown"}
FILES = sorted(TESTS.rglob("*.py"))
TEST_FILES = [path for path in FILES if path.name.startswith("test_")]


def relative(path: Path) -> str:
    return path.relative_to(TESTS).as_posix()


def functions_in(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]


def own_tests(path: Path) -> list[ast.FunctionDef]:
    return [function for function in functions_in(path) if function.name.startswith("test")]


def asserts_something(function: ast.FunctionDef) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"pytest.raises", "pytest.warns", *ASSERTING}:
            return True
    return False


def test_every_test_asserts_something():
    tests = [(relative(path), function) for path in TEST_FILES for function in own_tests(path)]

    assert len(tests) > 600
    assert [f"{file}: {test.name}" for file, test in tests if not asserts_something(test)] == []


def test_every_test_file_has_tests():
    assert [relative(path) for path in TEST_FILES if not own_tests(path)] == []


def test_functions_that_assert_for_others_do():
    helpers = {
        function.name: any(isinstance(node, ast.Assert) for node in ast.walk(function))
        for path in FILES
        for function in functions_in(path)
        if function.name in ASSERTING
    }

    assert helpers == dict.fromkeys(ASSERTING, True)


def test_no_test_is_replaced_by_another_of_its_name():
    names = [(relative(path), test.name) for path in TEST_FILES for test in own_tests(path)]

    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_no_file_is_long():
    lengths = {relative(path): len(path.read_text().splitlines()) for path in FILES}

    assert {file: length for file, length in lengths.items() if length > MOST_LINES} == {}


def test_folders_are_those_of_the_source():
    folders = {path.parent.relative_to(TESTS) for path in FILES} - {Path(), PROGRAMS}
    mirrored = {folder for folder in folders if folder.parts[0] not in FOLDERS_OF_THEIR_OWN}

    assert {folder.as_posix() for folder in mirrored if not (SOURCE / folder / "__init__.py").is_file()} == set()


def test_every_folder_is_a_package():
    """Two files of one name in different folders would else be one module."""
    assert {relative(path.parent) for path in FILES if not (path.parent / "__init__.py").is_file()} == set()


def test_properties_of_all_models_are_four():
    assert {path.name for path in (TESTS / "properties").glob("test_*.py")} == PROPERTIES


def test_what_is_shared_lies_in_support():
    """A test file that is imported by another is a place for helpers that nobody finds."""
    modules = {f"tests.{relative(path).removesuffix('.py').replace('/', '.')}" for path in TEST_FILES}
    imported = {
        node.module
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
    }

    assert imported & (modules | {"tests.conftest"}) == set()
