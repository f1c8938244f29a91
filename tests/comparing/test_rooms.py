"""The rooms of comparing/: pairing, measuring, precision, judging, then msprobe's words; each knows those before it."""

from __future__ import annotations

import re

import pytest

from tools.import_graph import cycles, edges, modules

MODULES = [module for module in modules() if module.package == "comparing"]
EDGES = edges(modules())
ROOMS = ("pairing", "measuring", "precision", "judging", "msprobe")
# Words of msprobe's tables that a core working with numbers has no use for.
TABLE_WORDS = re.compile(r'"(?:unsupported|shape unmatched|Different|Unmatched|Warning|Pass|real|md5|Yes|No)"')


def room_of(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 2 else ""


@pytest.mark.parametrize("place", range(len(ROOMS)), ids=ROOMS)
def test_a_room_knows_only_those_before_it(place):
    inside = [module.name for module in MODULES if room_of(module.name) == ROOMS[place]]
    reached = {target for name in inside for target in EDGES[name] if target.startswith("comparing")}

    assert inside
    assert {room_of(target) for target in reached} <= set(ROOMS[: place + 1])


def test_no_module_imports_itself_by_a_detour():
    assert [group for group in cycles(EDGES) if any(name.startswith("comparing") for name in group)] == []


def test_one_file_reaches_the_reports():
    reaching = {name for name in (module.name for module in MODULES) if any("report" in to for to in EDGES[name])}

    assert reaching == {"comparing.tables"}


@pytest.mark.parametrize(
    "module", [module for module in MODULES if room_of(module.name) in ROOMS[:4]], ids=lambda module: module.name
)
def test_the_core_knows_no_word_of_the_tables(module):
    assert TABLE_WORDS.findall(module.file.read_text()) == []
