"""Functions that a user registers with register_custom_api."""

from __future__ import annotations

import gc
import types
import weakref

import pytest
import torch

from tests.support.runs import records_of
from torchparity import open_run
from torchparity.errors import ConfigError
from torchparity.recording import PrecisionDebugger


def mixed(x, *, scale):
    return torch.exp(x) * scale, {"log": torch.log(x)}


@pytest.fixture
def library():
    made = types.ModuleType("fused")
    made.mixed = mixed
    made.number = 3
    return made


def test_a_custom_api_is_one_record_with_true_gradients(tmp_path, library):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    scale = torch.tensor(3.0, requires_grad=True)
    debugger = PrecisionDebugger(dump_path=tmp_path, task="tensor")
    debugger.register_custom_api(library, "mixed")
    assert library.mixed is mixed

    debugger.start()
    assert library.mixed is not mixed
    out, extra = library.mixed(x, scale=scale)
    torch.sin(out)
    debugger.stop()
    assert library.mixed is mixed
    (out.sum() + extra["log"].sum()).backward()
    debugger.step()
    debugger.close()

    part = open_run(tmp_path).part()
    assert list(part.records) == ["fused.mixed.0.forward", "Torch.sin.0.forward", "fused.mixed.0.backward"]
    backward = part.records["fused.mixed.0.backward"]
    assert torch.tensor(part.tensor(backward.output[0]).array).equal(x.grad)
    assert torch.tensor(part.tensor(backward.output_kwargs["scale"]).array).equal(scale.grad)
    assert part.tensor(backward.input_args[0]).array.tolist() == [1, 1]


def test_a_prefix_names_it_and_calls_are_numbered_over_stops(tmp_path, library):
    debugger = PrecisionDebugger(dump_path=tmp_path)
    debugger.register_custom_api(library, "mixed", "Mine")
    for _ in range(2):
        debugger.start()
        library.mixed(torch.ones(1), scale=2)
        debugger.stop()
        library.mixed(torch.ones(1), scale=2)
    debugger.close()

    assert [name for name in records_of(tmp_path) if "mixed" in name] == [
        "Mine.mixed.0.forward",
        "Mine.mixed.1.forward",
    ]


def test_inside_another_api_or_another_custom_api_it_is_not_recorded(tmp_path, library):
    library.outer = lambda x: library.mixed(x, scale=2)[0]

    class Wrapped(torch.Tensor):
        pass

    debugger = PrecisionDebugger(dump_path=tmp_path)
    debugger.register_custom_api(library, "mixed")
    debugger.register_custom_api(library, "outer")
    debugger.start()
    library.outer(torch.ones(1))
    torch.exp(torch.ones(1))
    debugger.close()

    assert [name for name in records_of(tmp_path) if "ones" not in name] == [
        "fused.outer.0.forward",
        "Torch.exp.0.forward",
    ]


def test_restored_it_is_recorded_no_longer(tmp_path, library):
    debugger = PrecisionDebugger(dump_path=tmp_path)
    debugger.register_custom_api(library, "mixed")
    debugger.start()
    debugger.restore_custom_api(library, "mixed")
    assert library.mixed is mixed
    library.mixed(torch.ones(1), scale=2)
    debugger.close()

    assert "Torch.exp.0.forward" in records_of(tmp_path)
    assert not [name for name in records_of(tmp_path) if "mixed" in name]


def test_an_error_of_a_custom_api_is_recorded_and_reaches_the_caller(tmp_path, library):
    debugger = PrecisionDebugger(dump_path=tmp_path)
    debugger.register_custom_api(library, "mixed")
    debugger.start()
    with pytest.raises(TypeError):
        library.mixed(torch.ones(1))
    torch.exp(torch.ones(1))
    debugger.close()

    assert "TypeError" in records_of(tmp_path)["fused.mixed.0.forward"].error
    assert "Torch.exp.0.forward" in records_of(tmp_path)


def test_methods_of_classes_stay_what_they_were(tmp_path):
    class Kernels:
        @staticmethod
        def fixed(x):
            return x.exp()

        @classmethod
        def made(cls, x):
            assert cls is Kernels
            return x.exp()

        def own(self, x):
            assert isinstance(self, Kernels)
            return x.exp()

    class Child(Kernels):
        pass

    before = dict(vars(Kernels))
    debugger = PrecisionDebugger(dump_path=tmp_path)
    for owner, name in ((Kernels, "fixed"), (Kernels, "made"), (Kernels, "own"), (Child, "fixed")):
        debugger.register_custom_api(owner, name)
    debugger.start()
    Kernels.fixed(torch.ones(1))
    Kernels.made(torch.ones(1))
    Kernels().own(torch.ones(1))
    Child.fixed(torch.ones(1))
    debugger.close()

    assert [name for name in records_of(tmp_path) if "ones" not in name] == [
        *("Kernels.fixed.0.forward", "Kernels.made.0.forward", "Kernels.own.0.forward", "Child.fixed.0.forward")
    ]
    assert dict(vars(Kernels)) == before and "fixed" not in vars(Child)


def test_what_cannot_be_registered_is_refused_at_once(library):
    debugger = PrecisionDebugger()
    with pytest.raises(ConfigError, match=r"fused has no function 'mixd'\. Did you mean 'mixed'"):
        debugger.register_custom_api(library, "mixd")
    with pytest.raises(ConfigError, match="no function 'number'"):
        debugger.register_custom_api(library, "number")
    with pytest.raises(ConfigError, match="cannot be replaced"):
        debugger.register_custom_api(dict, "get")


def test_a_kernel_that_writes_below_the_versions_is_seen(tmp_path, library):
    def fill(x):
        x.untyped_storage().fill_(0)

    library.fill = fill
    x = torch.ones(2)
    debugger = PrecisionDebugger(dump_path=tmp_path, task="tensor")
    debugger.register_custom_api(library, "fill")
    debugger.start()
    torch.exp(x)
    library.fill(x)
    torch.exp(x)
    debugger.close()

    part = open_run(tmp_path).part()
    assert part.tensor(part.records["Torch.exp.1.forward"].input_args[0]).array.tolist() == [0, 0]


def test_an_error_that_a_function_of_ones_own_raises_keeps_nothing_alive(tmp_path):
    kept = []

    def fails(x):
        inside = x * 2
        kept.append(weakref.ref(inside))
        raise ValueError("no")

    owner = types.SimpleNamespace(fails=fails)
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    debugger.register_custom_api(owner, "fails")
    gc.disable()
    try:
        debugger.start()
        with pytest.raises(ValueError, match="no"):
            owner.fails(torch.ones(2))
        PrecisionDebugger.close()
        assert kept[0]() is None
    finally:
        gc.enable()


class Scaling:
    def __init__(self, factor):
        self.factor = factor

    def scale(self, x):
        return x * self.factor


def test_a_method_of_an_object_is_recorded_and_still_bound(tmp_path):
    scaling = Scaling(3)
    debugger = PrecisionDebugger(dump_path=tmp_path)
    debugger.register_custom_api(scaling, "scale", "Mine")
    debugger.start()
    assert scaling.scale(torch.ones(1)).item() == 3
    debugger.stop()
    debugger.step()
    debugger.close()

    assert scaling.scale(torch.ones(1)).item() == 3 and "scale" not in vars(scaling)
    assert "Mine.scale.0.forward" in open_run(tmp_path).part().records


def test_what_a_function_wrote_before_it_raised_is_measured_again(tmp_path):
    home = types.SimpleNamespace()

    def write_and_raise(x):
        x.data.add_(1)
        raise ValueError

    home.write = write_and_raise
    debugger = PrecisionDebugger(dump_path=tmp_path)
    debugger.register_custom_api(home, "write", "Mine")
    y = torch.zeros(2)
    debugger.start()
    torch.mul(y, 2)
    with pytest.raises(ValueError):
        home.write(y)
    torch.mul(y, 2)
    debugger.stop()
    debugger.step()
    debugger.close()

    records = open_run(tmp_path).part().records
    assert records["Torch.mul.1.forward"].input_args[0].statistics.max == 1
