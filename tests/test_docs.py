"""The documents: generated pages are those of today, links lead somewhere, what they tell to type works."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from tests.support.processes import ROOT
from tools import config_docs, picture
from tools.import_graph import modules
from torchparity import cli

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
MANUAL = [page for page in PAGES if page.parent.name != "decisions"]
GUIDE = ROOT / "docs" / "guide" / "index.md"
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks(page, language):
    return [text for found, text in FENCED.findall(page.read_text()) if found == language]


def commands_of(page):
    """Every line of a code block that begins with the command, without its explanation."""
    lines = (line.removeprefix("$ ") for text in blocks(page, "") for line in text.splitlines())
    return [re.split(r"  +", line)[0] for line in lines if line.startswith("torchparity ")]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A folder with the runs of the demo."""
    folder = tmp_path_factory.mktemp("demo")
    script = [sys.executable, str(ROOT / "examples" / "demo.py")]
    subprocess.run(script, cwd=folder, capture_output=True, check=True, timeout=300)
    return folder


def test_the_page_of_settings_is_the_one_that_make_docs_writes():
    assert config_docs.PAGE.read_text() == config_docs.page(), "run `make docs`"


def test_every_setting_that_is_offered_is_explained():
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", config_docs.page(), re.MULTILINE)

    assert len(rows) > 30
    assert all(len(text) > 10 for _, text in rows)


def test_the_picture_has_every_package():
    drawn = picture.PAGE.read_text().partition(picture.BEGIN)[2].partition(picture.END)[0]

    for package in {module.package for module in modules()} - {""}:
        assert re.search(rf"^{package}/? ", drawn, re.MULTILINE), f"{package} is missing: run `make picture`"


def test_drawing_the_picture_keeps_the_rest_of_the_page():
    page = picture.PAGE.read_text()

    drawn = picture.page_with("nothing")

    assert drawn.partition(picture.BEGIN)[0] == page.partition(picture.BEGIN)[0]
    assert drawn.partition(picture.END)[2] == page.partition(picture.END)[2]
    assert "nothing" in drawn


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", MANUAL, ids=name_of)
def test_lines_of_prose_fit_a_screen(page):
    prose = FENCED.sub("", page.read_text()).splitlines()

    assert [line for line in prose if len(line) > 120 and not line.startswith("|")] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_msprobe_and_ptdbg_are_called_by_their_names(page):
    assert not re.search(r"\bthe seeds\b|\bseeds'", page.read_text())


def test_readme_is_one_screen():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 75


@pytest.mark.parametrize("page", [ROOT / "README.md", GUIDE], ids=name_of)
def test_commands_that_are_shown_exist_with_their_options(page):
    commands = commands_of(page)

    assert len(commands) > 3
    for command in commands:
        name, *words = shlex.split(command)[1:]
        shown = subprocess.run([sys.executable, "-m", "torchparity", name, "--help"], capture_output=True, text=True)
        options = set(re.findall(r"(?<![\w-])--?\w[\w-]*", shown.stdout))
        assert name in cli.command_names()
        assert {word for word in words if word.startswith("-")} <= options, command


def test_the_guides_commands_work_and_say_what_it_shows(demo):
    shown = [text.splitlines() for text in blocks(GUIDE, "") if text.startswith("$ ")]

    assert len(shown) == 4
    for command, *lines in shown:
        arguments = shlex.split(command)[2:]
        done = subprocess.run(
            [sys.executable, "-m", "torchparity", *arguments], cwd=demo, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[0] == lines[0]
        assert len(done.stdout.splitlines()) >= len(lines)


@pytest.mark.parametrize("code", [text for text in blocks(GUIDE, "python") if "demo_run" in text or "by_hand" in text])
def test_the_guides_python_works(code, demo):
    done = subprocess.run([sys.executable, "-c", code], cwd=demo, capture_output=True, text=True, timeout=100)

    assert done.returncode == 0, done.stderr


def test_the_listener_of_the_architecture_page_counts_calls():
    (code,) = [text for text in blocks(ROOT / "docs" / "architecture.md", "python") if "class Counting" in text]

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "2"
