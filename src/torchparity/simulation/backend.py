"""`torch.npu` of the simulated device: the part of torch_npu's module that trainings call."""

from __future__ import annotations

from types import SimpleNamespace, TracebackType
from typing import Any

import torch

from torchparity.errors import SimulationError
from torchparity.simulation.execution import Execution
from torchparity.simulation.faults import Fault

_ACCUMULATIONS = {"bf16": "bf16 accumulation", "fp16": "fp16 accumulation", "tf32": "TF32 products"}
_Device = torch.device | str | int | None


class SimulatedBackend:
    """`torch.npu`; everything happens in order on the host, so there is nothing to wait for."""

    is_simulated = True
    _initialized = True  # torch.utils.checkpoint asks for it before it keeps the state of the generator

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.goes_backward = False  # known when it was tried
        self.registrations: list[Any] = []  # torch forgets the kernels when these go
        self.default_generators = (execution.generator,)
        self.amp = SimpleNamespace(autocast=_Autocast, GradScaler=_GradScaler)
        self.utils = SimpleNamespace(
            is_support_inf_nan=lambda: False,
            get_npu_overflow_flag=lambda: execution.overflowed,
            clear_npu_overflow_flag=self._clear_overflow,
        )
        self.device, self.Stream = DeviceContext, Stream

    @property
    def unmet_faults(self) -> tuple[Fault, ...]:
        """The planted faults that have changed nothing yet."""
        return self.execution.faults.unmet

    def tell_unmet_faults(self) -> None:
        """Log the planted faults that have changed nothing."""
        self.execution.faults.tell_unmet()

    @property
    def matmul(self) -> SimpleNamespace:
        """The switch of a real NPU for its HF32, which has a bit more than TF32; the simulated one has none."""
        return SimpleNamespace(allow_hf32=False)

    conv = matmul

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def _lazy_init(self) -> None:
        """Do nothing: the device is there from the start."""

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def set_device(self, device: _Device) -> None:
        DeviceContext(device)

    def get_device_name(self, device: _Device = None) -> str:
        behaviour = self.execution.behaviour
        said = [
            _ACCUMULATIONS[behaviour.accumulate] if behaviour.accumulate else "",
            f"{behaviour.reduction_order} reductions" if behaviour.reduction_order else "",
            "flushed subnormals" if behaviour.flush_subnormals else "",
        ]
        return f"simulated NPU ({', '.join(filter(None, ['CPU kernels', *said]))})"

    def synchronize(self, device: _Device = None) -> None:
        """Do nothing: the host works in order."""

    def empty_cache(self) -> None:
        """Do nothing: nothing is cached."""

    def current_stream(self, device: _Device = None) -> Stream:
        return Stream()

    def default_stream(self, device: _Device = None) -> Stream:
        return Stream()

    def manual_seed(self, seed: int) -> None:
        self.execution.generator.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        self.manual_seed(seed)

    def initial_seed(self) -> int:
        return self.execution.draws_from().initial_seed()

    def get_rng_state(self, device: _Device = None) -> torch.Tensor:
        return self.execution.draws_from().get_state()

    def set_rng_state(self, state: torch.Tensor, device: _Device = None) -> None:
        self.execution.draws_from().set_state(state)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def is_bf16_supported(self) -> bool:
        return True

    def _clear_overflow(self) -> None:
        self.execution.overflowed = False


class Stream:
    """The one stream of the device."""

    def synchronize(self) -> None:
        """Do nothing: the host works in order."""

    def wait_stream(self, stream: Stream) -> None:
        """Do nothing: the host works in order."""


class DeviceContext:
    """`with torch.npu.device(0)`: there is one device alone."""

    def __init__(self, device: _Device) -> None:
        index = torch.device("npu", device).index if isinstance(device, int) else torch.device(device or "npu").index
        if index not in (None, 0):
            raise SimulationError(f"there is no npu:{index}; the simulated NPU is npu:0 alone.")

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class _Autocast(torch.autocast):
    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("npu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class _GradScaler(torch.amp.GradScaler):
    def __init__(self, init_scale: float = 2.0**16, enabled: bool = True, **options: Any) -> None:
        super().__init__("npu", init_scale=init_scale, enabled=enabled, **options)
