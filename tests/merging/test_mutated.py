"""Mutated results through every reader: each is read or refused in one sentence.

Short in the suite; `make fuzz` sets TORCHPARITY_FUZZ_CASES.
"""

from __future__ import annotations

import io
import os
import random
import zipfile

import pytest

from tests.fuzz.mutate import mutate
from tests.support.results import write_result
from torchparity.errors import ParityError
from torchparity.merging.reading import read_table

CASES = int(os.environ.get("TORCHPARITY_FUZZ_CASES", "150"))


def mutated_sheet(book, rng):
    """Return a workbook whose sheet alone is mutated, so that it unpacks without complaint."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(book)) as before, zipfile.ZipFile(changed, "w") as after:
        for name in before.namelist():
            content = before.read(name)
            after.writestr(name, mutate(content, rng) if name.endswith("sheet1.xml") else content)
    return changed.getvalue()


@pytest.mark.parametrize("case", [235, 352, 1753, 3712])  # that `make fuzz` has met
def test_a_parquet_whose_reader_panics_is_refused_in_one_sentence(tmp_path, case, capfd):
    names = [f"Distributed.all_reduce.{call}.forward.input.0" for call in range(30)]
    path = write_result(tmp_path / "result.parquet", dict.fromkeys(names, 0.5))
    path.write_bytes(mutate(path.read_bytes(), random.Random(f"parquet-{case}")))

    with pytest.raises(ParityError, match="its parts do not fit together"):
        read_table(path)


@pytest.mark.fuzz
@pytest.mark.parametrize(
    ("suffix", "change"),
    [("csv", mutate), ("json", mutate), ("parquet", mutate), ("xlsx", mutate), ("xlsx", mutated_sheet)],
)
def test_a_mutated_result_is_read_or_refused(tmp_path, suffix, change):
    names = [f"Distributed.all_reduce.{call}.forward.input.0" for call in range(30)]
    path = write_result(tmp_path / f"result.{suffix}", dict.fromkeys(names, 0.5))
    whole = path.read_bytes()
    read = refused = 0
    for case in range(CASES):
        path.write_bytes(change(whole, random.Random(f"{suffix}-{case}")))
        try:
            read += read_table(path).height >= 0
        except ParityError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 900

    print(f"{read} read, {refused} refused")
    assert read + refused == CASES and refused > 0
