"""Cells of a sheet are named as a spreadsheet names them."""

from __future__ import annotations

import pytest

from torchparity.report.workbook import rows


@pytest.mark.parametrize(("place", "name"), [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA")])
def test_letters_are_those_of_a_spreadsheet(place, name):
    assert rows.column_name(place) == name
