"""The formats that `torchparity compare` offers are the files in report/formats."""

from __future__ import annotations

import pytest

from tests.support.runs import write_linear_run
from torchparity import plugins
from torchparity.cli import main


def test_help_lists_every_format(capsys):
    main(["compare", "--help"])

    assert ",".join(plugins.names("report.formats")) in capsys.readouterr().out.replace("\n", "").replace(" ", "")


@pytest.mark.parametrize("name", plugins.names("report.formats"))
def test_every_format_can_be_asked_for(name, tmp_path):
    run = str(write_linear_run(tmp_path / "run"))

    code = main(["compare", run, run, "-o", str(tmp_path / "out"), "--format", name, "-c"])

    assert code == 0
    assert [file.suffix for file in (tmp_path / "out").iterdir()] == [f".{name}"]


def test_a_format_that_does_not_exist_is_answered_with_the_nearest(tmp_path, capsys):
    run = str(write_linear_run(tmp_path / "run"))

    code = main(["compare", run, run, "-o", str(tmp_path / "out"), "--format", "parket"])

    said = capsys.readouterr().err
    assert code == 2
    assert "Did you mean 'parquet'?" in said
    assert "There are: csv, json, parquet, xlsx." in said
