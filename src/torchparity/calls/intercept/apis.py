"""Sees every API call through torch's own function mode; nothing is patched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchparity.calls.intercept.backward_entry import Engine
from torchparity.devices import device_for
from torchparity.ops.catalog import Api, ApiTable
from torchparity.recording.measuring.geometry import tensors_in
from torchparity.recording.step.recorder import Call, Recorder


class ApiWatcher(TorchFunctionMode):
    """Hands each API call to the recorder; never changes a value, a stride or the random state.

    Inside a call the mode is off, so only the outermost API is seen. With `records` off
    it notes alone who may write a memory unseen, `x.data.add_(1)` say: else what a module
    returned would be taken for what the next one received.
    """

    def __init__(self, recorder: Recorder, apis: ApiTable, *, records: bool) -> None:
        super().__init__()
        self._recorder, self._apis, self.records = recorder, apis, records
        self.counts = records  # where APIs are recorded at all
        self._engine = Engine(self, recorder)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        # A compiler or tracer that looks at us would put our own work into the user's graph.
        if torch.compiler.is_compiling():
            return func(*args, **kwargs)
        try:
            api = self._apis[func]
        except TypeError:  # it has no hash; a user's own
            return func(*args, **kwargs)
        is_idle = api.is_harmless and "out" not in kwargs and (api.treatment == "pass" or not self.counts)
        if is_idle or torch._C._get_tracing_state() is not None:
            return func(*args, **kwargs)
        if not self._recorder.is_recording:
            self._count(api)
            return func(*args, **kwargs)
        if not self.counts and api.is_plain and self._recorder.is_in_optimizer:
            return func(*args, **kwargs)  # what it writes is looked at again when it is done, or calls a module
        if api.exposes_storage:
            tensors = [value for value in args if isinstance(value, torch.Tensor)]
            self._recorder.boundary.run(api.name, self._recorder.measurements.never_cache, *tensors)
        if api.treatment == "engine":
            return self._through_the_engine(func, args, kwargs)
        if api.treatment == "record" and self.records:
            return self._recorded(api, func, args, kwargs)
        self._count(api)
        return self._passed_over(api, func, args, kwargs)

    def _count(self, api: Api) -> None:
        """Count a call that is not recorded: the numbers of others do not depend on what is."""
        recorder = self._recorder
        if self.counts and api.treatment == "record" and (recorder.is_recording or recorder.is_waiting):
            recorder.boundary.run(api.name, recorder.count, api.name)

    def _recorded(self, api: Api, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        recorder = self._recorder
        frame = sys._getframe(2)
        call: Call | None = recorder.boundary.run(api.name, recorder.begin, api, args, kwargs, frame)
        if call is None:
            return self._passed_over(api, func, args, kwargs)
        call.start_clock(recorder.boundary)
        try:
            output = func(*args, **kwargs)
        except BaseException as error:
            recorder.boundary.run(api.name, recorder.failed, call, error)
            raise
        recorder.boundary.run(api.name, self._finish, api, call, args, kwargs, output)
        return output

    def _passed_over(self, api: Api, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call what is not recorded, and note what it may have written."""
        output = func(*args, **kwargs)
        if api.writes_unversioned:
            self._recorder.boundary.run(api.name, self._renew_written, api, args, kwargs)
        elif api.writes or "out" in kwargs:
            self._recorder.boundary.run(api.name, self._note_written, args, kwargs)
        return output

    def _note_written(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Look again at memories that were written: another tensor may have the same, and count its own versions."""
        self._recorder.measurements.invalidate(*tensors_in((*args, *kwargs.values())))

    def _finish(self, api: Api, call: Call, args: Sequence[Any], kwargs: dict[str, Any], output: Any) -> None:
        if not (_holds_tensor(args) or _holds_tensor(output) or _holds_tensor(kwargs)):
            return  # torch.device("cpu"), torch.set_grad_enabled(False): nothing to compare
        if api.name.startswith("Ops._c10d_functional"):
            for tensor in tensors_in(output):  # still on its way
                torch.ops._c10d_functional.wait_tensor(tensor)
        if api.arrives_later and (kwargs.get("non_blocking") or any(value is True for value in args)):
            _wait_for_host_copies((*args, *kwargs.values()), output)
        if api.writes_unversioned:
            self._renew_written(api, args, kwargs)
        elif api.writes and args and isinstance(output, torch.Tensor) and output is args[0]:
            self._recorder.measurements.invalidate(output)  # another tensor may have its memory, and just this version
        elif output is None or "out" in kwargs:
            self._note_written(args, kwargs)  # fused optimizers count no version
        self._recorder.end(call, output, keep=not api.is_factory)

    def _renew_written(self, api: Api, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Forget what was known of what a call may have written without a new version."""
        written = tensors_in((*args, *kwargs.values()))
        self._recorder.measurements.invalidate(
            *(tensor for tensor in written if api.writes_below or not tensor.requires_grad)
        )

    def _through_the_engine(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run backward with the mode on, or what a custom backward and a recomputation call would go unseen."""
        with self._engine.patched():
            return func(*args, **kwargs)


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if isinstance(value, (list, tuple)):
        return any(map(_holds_tensor, value))
    return isinstance(value, dict) and any(map(_holds_tensor, value.values()))


def _wait_for_host_copies(args: Sequence[Any], output: Any) -> None:
    """Wait for what a device is still copying into host memory, which we are about to read."""
    if any(device_for(tensor.device).is_host for tensor in tensors_in((output, *args[:1]))):
        for device in {tensor.device for tensor in tensors_in(args)}:
            device_for(device).wait(device)
