"""On a CUDA device: as true and as inert as on the CPU, and nothing waits for the device within a step."""

from __future__ import annotations

import threading
import zlib

import numpy as np
import pytest
import torch
from torch import nn

from tests.support.cuda_waits import no_waits
from tests.support.models import WritesBetween
from tests.support.statistics import assert_same
from tests.support.zoo import Checkpointed
from torchparity import open_run, random_save, seed_all
from torchparity.kernels import reference
from torchparity.recording import capture

pytestmark = pytest.mark.gpu
TASKS = {
    "statistics": {"task": "statistics"},
    "md5": {"task": "statistics", "settings": {"statistics": {"summary_mode": "md5"}}},
    "tensor": {"task": "tensor"},
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(50, 64), nn.LayerNorm(64)
        self.mix = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
        self.conv, self.bn = nn.Conv1d(64, 64, 3, padding=1), nn.BatchNorm1d(64)
        self.act, self.head = nn.ReLU(inplace=True), nn.Linear(64, 50)

    def forward(self, tokens):
        x = self.mix(self.norm(self.embed(tokens)))
        return self.head(self.act(self.bn(self.conv(x.transpose(1, 2)))).transpose(1, 2))


class CudaTraining:
    def __init__(self, device, *, autocast=False):
        torch.manual_seed(3)
        self.model = Net().to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.tokens = torch.randint(50, (4, 17), device=device)
        self.autocast, self.losses = autocast, []
        self.scaler = torch.amp.GradScaler("cuda", enabled=autocast)

    def step(self):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16, enabled=self.autocast):
            logits = self.model(self.tokens[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), self.tokens[:, 1:].flatten())
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.losses.append(loss.detach())

    def state(self):
        found = [*self.losses, *self.model.state_dict().values()]
        found += [parameter.grad for parameter in self.model.parameters()]
        found += [value for state in self.optimizer.state.values() for value in state.values()]
        return [torch.cuda.get_rng_state().numpy().tobytes()] + [value.cpu().numpy().tobytes() for value in found]


@pytest.fixture(autouse=True)
def deterministic():
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_training_is_bit_identical(level, task, autocast, cuda, tmp_path):
    alone, watched = CudaTraining(cuda, autocast=autocast), None
    for _ in range(3):
        alone.step()
    expected = alone.state()
    watched = CudaTraining(cuda, autocast=autocast)
    with capture(tmp_path, model=watched.model, level=level, **TASKS[task]) as recording:
        for number in range(3):
            if number:
                recording.step()
            watched.step()

    assert watched.state() == expected
    assert [part.verify() for part in open_run(tmp_path).parts] == [[], [], []]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("autocast", [False, True])
def test_what_is_kept_is_that_of_the_values(autocast, cuda, tmp_path):
    training = CudaTraining(cuda, autocast=autocast)
    with capture(tmp_path, model=training.model, task="tensor", settings={"tensor": {"summary_mode": "md5"}}):
        training.step()

    part = open_run(tmp_path).part()
    tensors = list(part.tensors())

    assert len(tensors) > 200
    for item, leaf in tensors:
        values = part.tensor(leaf)
        assert leaf.checksum == f"{zlib.crc32(np.ascontiguousarray(values.array)):08x}", item
        assert_same(leaf.statistics, reference.statistics(values), 2e-8)


@pytest.mark.filterwarnings("ignore:Memory Efficient attention")
@pytest.mark.parametrize("task", ["statistics", "md5"])
def test_a_step_never_waits_for_the_device(task, cuda, tmp_path):
    training = CudaTraining(cuda)
    with capture(tmp_path / "warm", model=training.model, level="mix", **TASKS[task]):
        training.step()
    with capture(tmp_path / "run", model=training.model, level="mix", **TASKS[task]), no_waits():
        training.step()

    assert open_run(tmp_path / "run").part().records


def test_tensors_of_two_streams_are_measured_on_their_own(cuda, tmp_path):
    side = torch.cuda.Stream()
    with capture(tmp_path, level="L1", task="statistics"):
        left = torch.full((1 << 22,), 2.0, device=cuda)
        total = left.exp()
        with torch.cuda.stream(side):
            side.wait_stream(torch.cuda.current_stream())
            other = left.mul(3)
        torch.cuda.current_stream().wait_stream(side)
        both = total.add(other)

    records = open_run(tmp_path).part().records
    assert records["Tensor.mul.0.forward"].output[0].statistics.max == 6
    assert records["Tensor.add.0.forward"].output[0].statistics.max == both.max().item()


def test_a_copy_to_the_host_that_is_still_on_its_way_is_waited_for(cuda, tmp_path):
    pinned = torch.zeros(1 << 24, pin_memory=True)
    with capture(tmp_path, level="L1"):
        source = torch.full((1 << 24,), 2.0, device=cuda)
        torch.cuda._sleep(1 << 28)
        pinned.copy_(source, non_blocking=True)

    assert open_run(tmp_path).part().records["Tensor.copy_.0.forward"].output[0].statistics.min == 2


def test_a_cuda_graph_is_captured_and_replayed_as_without_a_recording(cuda, tmp_path):
    held = torch.ones(4, device=cuda)
    with capture(tmp_path, level="L1"):
        held.add(0)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = held.mul(3)
        graph.replay()
        result.add(1)
        held.fill_(2)
        graph.replay()
        result.add(1)

    records = open_run(tmp_path).part().records
    assert "Tensor.mul.0.forward" not in records
    assert records["Tensor.add.1.forward"].input_args[0].statistics.max == 3
    assert records["Tensor.add.2.forward"].input_args[0].statistics.max == 6
    graph.replay()
    assert result.tolist() == [6, 6, 6, 6]


def test_a_list_of_thousands_of_tensors_is_measured(cuda, tmp_path):
    tensors = [torch.full((3,), float(number), device=cuda) for number in range(5000)]
    with capture(tmp_path, level="L1"):
        torch._foreach_add(tensors, 1.0)

    record = open_run(tmp_path).part().records["Torch._foreach_add.0.forward"]
    assert [leaf.statistics.max for leaf in record.input_args[0]] == list(range(5000))


@pytest.mark.parametrize("task", ["statistics", "md5"])
def test_without_a_compiler_torchs_own_operators_measure(cuda, tmp_path, monkeypatch, task, caplog):
    def refuse(*_):
        raise RuntimeError("Failed to find C compiler")

    monkeypatch.setattr("torchparity.kernels.compiled_kernel.CompiledKernel.launch", refuse)
    with capture(tmp_path, level="L1", **TASKS[task]):
        torch.arange(5.0, device=cuda).add(1)

    part = open_run(tmp_path).part()
    leaf = part.records["Tensor.add.0.forward"].output[0]
    assert leaf.statistics.max == 5 and part.problems == []
    assert "Failed to find C compiler" in caplog.text


@pytest.mark.parametrize("reentrant", [False, True])
def test_autograds_threads_record_what_the_only_thread_of_a_cpu_records(tmp_path, cuda, reentrant):
    def names_on(device):
        torch.manual_seed(0)
        model = Checkpointed(reentrant).to(device)
        x = torch.randn(4, 6, device=device, requires_grad=True)
        with capture(tmp_path / str(device), level="mix", model=model):
            model(x).sum().backward()
        names = open_run(tmp_path / str(device)).part().records
        return [name for name in names if name.startswith(("Functional.", "Module."))]  # states of generators differ

    assert names_on(cuda) == names_on(torch.device("cpu"))


def test_a_step_that_is_read_while_a_graph_is_captured_harms_neither(cuda):
    from torchparity.kernels.arenas.cuda import CudaArena

    arena = CudaArena(cuda, checksums=True)
    values = torch.randn(100_000, device=cuda)
    arena.add(values, values.data_ptr(), values.numel(), "torch.float32", None)
    readings = arena.take()
    graph, found = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        result = values * 2
        reader = threading.Thread(target=lambda: found.extend(readings.wait()))
        reader.start()
        reader.join()
    values.fill_(3.0)
    graph.replay()

    assert torch.equal(result.cpu(), torch.full((100_000,), 6.0))
    assert len(found) == 1


def test_a_recording_raises_nothing_where_every_wait_is_an_error(tmp_path, cuda):
    x = torch.ones(1000, device=cuda)
    with no_waits(), capture(tmp_path):
        x.exp()

    assert open_run(tmp_path).part().records["Tensor.exp.0.forward"].output[0].statistics.max == pytest.approx(np.e)


def test_draws_on_the_device_are_listed_and_restarted(cuda, tmp_path):
    x = torch.ones(64, device=cuda)
    with random_save(tmp_path) as calls:
        torch.nn.functional.dropout(x, 0.5)
        torch.nn.functional.dropout(x, 0.5, training=False)
        torch.rand(3, device=cuda)
    names = [line.split(",")[0] for line in calls.path.read_text().splitlines() if line.startswith(("Torch", "Func"))]
    assert names == ["Functional.dropout.0", "Torch.rand.0"]

    seed_all(7, is_enhanced=True)
    first, second = torch.rand(3, device=cuda), torch.rand(3, device=cuda)
    seed_all(7)
    third, fourth = torch.rand(3, device=cuda), torch.rand(3, device=cuda)
    torch.backends.cudnn.enabled, torch.backends.cudnn.deterministic = True, False
    assert torch.equal(first, second) and torch.equal(first, third)
    assert not torch.equal(third, fourth)


def test_a_write_between_modules_without_a_new_version_is_seen(cuda, tmp_path):
    model = WritesBetween()
    with capture(tmp_path, model=model, level="L0"):
        model(torch.ones(3, device=cuda))

    records = open_run(tmp_path).part().records
    assert records["Module.first.Identity.forward.0"].output[0].statistics.max == 2
    assert records["Module.second.Identity.forward.0"].input_args[0].statistics.max == 6


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda lists: torch._foreach_lerp_(lists[0], lists[1], 0.5), id="lerp"),
        pytest.param(lambda lists: torch._foreach_zero_(lists[0]), id="zero"),
    ],
)
def test_lists_that_are_written_without_a_new_version_are_measured_anew(cuda, tmp_path, write):
    """On CUDA torch bumps no version for these two; Adam's averages go through the first."""
    lists = [[torch.full((4, 4), value, device=cuda) for _ in range(10)] for value in (3.0, 1.0)]
    with capture(tmp_path / "run", task="statistics", level="L1"):
        torch._foreach_add(lists[0], 0.0)
        write(lists)
        torch._foreach_add(lists[0], 0.0)
    part = open_run(tmp_path / "run").parts[0]
    received = part.record("Torch._foreach_add.1.forward").input_args[0][7]

    assert received.statistics.max == lists[0][7].max().item()
    assert [origin.name for origin in part.origins_of(received)][-1].startswith("Torch._foreach_")
