"""The collection of one iteration, in this process."""

from __future__ import annotations

import json

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.support.bits import same_bits
from torchparity.check.collection.collector import Collector
from torchparity.check.collection.settings import CollectionSettings
from torchparity.errors import ConfigError
from torchparity.storage import open_info_files


@pytest.fixture
def collector(tmp_path):
    made = []

    def make(**settings):
        made.append(Collector(CollectionSettings(dump_path=tmp_path, **settings)))
        made[-1].watch()
        return made[-1]

    yield make
    for each in made:
        each.close()


def batches(count=4):
    return DataLoader(TensorDataset(torch.arange(float(count * 2))), batch_size=2)


def collected(folder):
    (path,) = folder.glob("forward_info_*.json")
    return open_info_files(path, path.with_name(path.name.replace("forward", "backward")))


def test_the_second_batch_is_collected_and_the_training_ends(tmp_path, collector):
    collector()
    seen = []

    with pytest.raises(Exception, match=r"^Model pretest: exit after iteration 1\.$") as raised:
        for (batch,) in batches():
            seen.append(batch)
            torch.exp(batch)

    assert type(raised.value) is Exception
    assert len(seen) == 2
    leaf = collected(tmp_path).records["Torch.exp.0.forward"].input_args[0]
    assert (leaf.statistics.min, leaf.statistics.max) == (2.0, 3.0)


def test_the_last_batch_is_collected_where_no_other_follows(tmp_path, collector, capsys):
    collecting = collector(target_iter=3)
    loader = iter(batches(4))
    for _ in range(4):
        torch.exp(next(loader)[0])
    collecting.close()

    assert collected(tmp_path).records["Torch.exp.0.forward"].input_args[0].statistics.max == 7.0
    assert "1 call of iteration 3 collected" in capsys.readouterr().out


def test_real_data_are_the_values_of_arguments_and_gradients(tmp_path, collector):
    collector(real_data=True)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(Exception, match="Model pretest"):
        for (batch,) in batches():
            torch.mul(x, batch).sum().backward()

    part = collected(tmp_path)
    values = {name: tensor.array.tolist() for name, tensor in part.values()}
    assert values["Torch.mul.0.forward.input.0"] == [1.0, 2.0]
    assert values["Torch.mul.0.forward.input.1"] == [2.0, 3.0]
    assert values["Torch.mul.0.backward.input.0"] == [1.0, 1.0]


def test_the_switch_counts_iterations_where_no_loader_does(tmp_path, collector):
    collecting, done = collector(target_iter=2), 0

    with pytest.raises(Exception, match=r"exit after iteration 2\.$"):
        for number in range(10):
            collecting.switch_on()
            torch.exp(torch.tensor([float(number)]))
            done += 1

    assert done == 3
    assert collected(tmp_path).records["Torch.exp.0.forward"].input_args[0].statistics.max == 2.0


def test_the_switch_is_no_second_count_beside_a_loader(tmp_path, collector):
    collecting = collector()
    with pytest.raises(Exception, match="iteration 1"):
        for (batch,) in batches():
            collecting.switch_on()
            torch.exp(batch)

    assert list(collected(tmp_path).records) == ["Torch.exp.0.forward"]


def test_without_counting_everything_between_on_and_off_is_collected(tmp_path, collector):
    collecting = collector(enable_dataloader=False)
    for (batch,) in batches(5):
        if batch[0] == 2:
            collecting.switch_on()
        torch.exp(batch)
        collecting.switch_off()
    collecting.close()

    assert list(collected(tmp_path).records) == ["Torch.exp.0.forward"]


def test_an_iteration_that_never_comes_is_said(tmp_path, collector, capsys):
    collecting = collector(target_iter=9)
    for (batch,) in batches(3):
        torch.exp(batch)
    collecting.close()

    said = capsys.readouterr().out
    assert "iteration 9 never came (step 9 was asked for, " in said and ".)" not in said
    assert "steps 0 to 2 came" in said
    assert not list(tmp_path.iterdir())


def test_collecting_changes_no_bit(collector):
    def trained(steps):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.3), torch.nn.Linear(4, 1))
        optimizer = torch.optim.Adam(model.parameters())
        loader = DataLoader(TensorDataset(torch.randn(8, 2)), batch_size=2, shuffle=True)
        for _, (batch,) in zip(range(steps), loader, strict=False):  # the next batch would end the training
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return [*(each.detach() for each in model.parameters()), torch.get_rng_state()]

    plain = trained(2)
    collecting = collector(real_data=True)
    watched = trained(2)
    collecting.close()

    assert all(same_bits(left, right) for left, right in zip(plain, watched, strict=True))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dump_path": "nowhere"}, "dump_path 'nowhere' is no folder"),
        ({"target_iter": -1}, "target_iter is -1"),
        ({"target_iter": True}, "target_iter is True"),
        ({"real_data": 1}, "real_data is 1"),
        ({"enable_dataloader": "yes"}, "enable_dataloader is 'yes'"),
        ({"dump_path": None}, "dump_path is None"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, said):
    with pytest.raises(ConfigError, match=said):
        CollectionSettings(**settings)


def test_settings_come_before_the_training(tmp_path, collector):
    collecting = collector()
    with pytest.raises(ConfigError, match="before the training"):
        for _ in batches():
            collecting.configure(CollectionSettings(dump_path=tmp_path))


def test_the_files_are_strict_json(tmp_path, collector):
    collector()
    with pytest.raises(Exception, match="iteration 1"):
        for (batch,) in batches():
            torch.log(batch * 0)

    (path,) = tmp_path.glob("backward_info_*.json")
    assert json.loads(path.read_text()) == {}
    (path,) = tmp_path.glob("forward_info_*.json")
    assert "NaN" not in path.read_text()
    assert "Infinity" not in path.read_text()
