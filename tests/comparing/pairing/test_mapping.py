"""Names that belong together because a user says so; nothing is dropped for it."""

from __future__ import annotations

import pytest

import torchparity
from tests.support.dumps import call, constant, write_dump
from torchparity.comparing.pairing.mapping import with_partner_names
from torchparity.errors import ConfigError
from torchparity.records import Record


@pytest.fixture
def compare(tmp_path):
    def run(candidate, baseline, content, **settings):
        mapping = tmp_path / "map.yaml"
        mapping.write_text(content)
        left, right = write_dump(tmp_path / "candidate", candidate), write_dump(tmp_path / "baseline", baseline)
        return torchparity.compare(left, right, **dict.fromkeys(settings, mapping))

    return run


def names_of(done):
    return list(zip(done.frame["NPU Name"].to_list(), done.frame["Bench Name"].to_list(), strict=True))


def module(path):
    return {f"Module.{path}.Linear.forward.0": call([constant(1.0)], [])}


def test_a_renamed_module_is_shown_by_its_own_name(compare):
    done = compare(module("new"), module("old"), "new.Linear: old.Linear", cell_mapping=True)

    assert names_of(done) == [("Module.new.Linear.forward.0.input.0", "Module.old.Linear.forward.0.input.0")]


def test_a_module_whose_name_is_given_away_is_still_listed(compare):
    baseline = module("new") | module("old")

    done = compare(module("new"), baseline, "new.Linear: old.Linear", cell_mapping=True)

    assert names_of(done) == [
        ("Module.new.Linear.forward.0.input.0", "Module.old.Linear.forward.0.input.0"),
        ("N/A", "Module.new.Linear.forward.0.input.0"),
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("nwe.Linear: old.Linear", "'nwe.Linear', which no module of the candidate has. Did you mean 'new.Linear'?"),
        ("new.Linear: odl.Linear", "'odl.Linear', which no module of the baseline has. Did you mean 'old.Linear'?"),
        ("new: ol", "'new' to 'ol' pairs no module: the candidate has no 'newd'. Did you mean 'old'?"),
        ("new: Linear", "'new' to 'Linear' pairs no module: the candidate has no 'old.new'."),
    ],
)
def test_an_unknown_module_is_refused(compare, content, said):
    with pytest.raises(ConfigError, match="the mapping") as refused:
        compare(module("new"), module("old"), content, cell_mapping=True)

    assert said in str(refused.value)


def test_an_item_that_loses_its_partner_is_still_listed(compare):
    run = {"Torch.add.0.forward": call([constant(1.0), constant(2.0)], [])}
    one, two = (f"Torch.add.0.forward.input.{place}" for place in (0, 1))

    done = compare(run, run, f"{one}: {two}", data_mapping=True)

    assert names_of(done) == [(one, two), (two, two), ("N/A", one)]


def test_partners_are_renamed_exactly_and_nothing_that_looks_alike():
    names = ["Module.A.Old.forward.0", "Module.A.Older.forward.0", "Module.A.Old.backward.0", "Torch.exp.0.forward"]
    records = {name: Record(name=name, direction="forward") for name in names}

    renamed = with_partner_names(records, {"Module.A.New": "Module.A.Old"})

    assert list(renamed) == ["Module.A.New.forward.0", names[1], "Module.A.New.backward.0", names[3]]
    assert [record.name for record in renamed.values()] == names


def test_a_module_keeps_its_name_where_another_has_that_of_its_partner():
    names = ["Module.a.New.forward.0", "Module.a.Old.forward.0"]
    records = {name: Record(name=name, direction="forward") for name in names}

    assert list(with_partner_names(records, {"Module.a.New": "Module.a.Old"})) == names
