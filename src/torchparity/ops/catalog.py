"""What a function that torch hands to a mode is called, and whether a call of it is recorded.

Everything is recorded unless it is named here: attribute getters, questions about a
tensor's form, and views, which change no value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch.overrides import resolve_name

Treatment = Literal["record", "pass", "engine"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ENGINE = {"torch.Tensor.backward"}
_QUESTIONS = _words(
    """dim size stride numel nelement ndimension storage_offset data_ptr element_size itemsize nbytes is_contiguous
    is_complex is_floating_point is_signed is_pinned is_shared is_set_to is_inference is_neg is_conj
    is_same_size is_coalesced get_device has_names requires_grad_ retain_grad register_hook
    register_post_accumulate_grad_hook storage untyped_storage _typed_storage _is_view __len__ __hash__ __repr__
    __str__ __format__ __reduce_ex__ __setstate__ __dir__ __iter__ __contains__ sparse_dim dense_dim result_type
    can_cast rename_ rename align_as is_distributed __array__ __dlpack__ __dlpack_device__ _backward_hooks
    _version has_torch_function _assert_async record_stream
    """
)
_VIEWS = _words(
    """view view_as reshape reshape_as transpose transpose_ permute t t_ squeeze squeeze_ unsqueeze unsqueeze_
    expand expand_as flatten unflatten ravel select narrow unbind split split_with_sizes chunk tensor_split
    hsplit vsplit dsplit swapaxes swapaxes_ swapdims swapdims_ movedim moveaxis diagonal as_strided as_strided_
    unfold detach detach_ alias contiguous broadcast_to broadcast_tensors view_as_real view_as_complex adjoint
    atleast_1d atleast_2d atleast_3d real imag T mT H mH resolve_conj resolve_neg conj
    """
)
_VIEW_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag"})
_FACTORIES = _words(
    """empty empty_like empty_strided zeros zeros_like ones ones_like full full_like new_empty new_empty_strided
    new_zeros new_ones new_full new_tensor tensor
    """
)
_EXPOSES = frozenset({"torch.Tensor.data.__get__", "torch.Tensor.data.__set__", "torch.Tensor.untyped_storage"})
_WRITES_BUFFERS = ("batch_norm", "instance_norm")
_EXPOSES_BY_NAME = _words(
    """storage data_ptr __array__ __dlpack__ numpy _typed_storage __cuda_array_interface__ share_memory_
    """
)
_ARRIVES_LATER = frozenset({"to", "copy_", "type", "_foreach_copy_"})
_RNN = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"})
# What `risk_level: CORE` keeps: where rounding, reduction order or range usually go wrong.
_CORE_WORDS = _words(
    """matmul mm bmm addmm baddbmm linear bilinear conv norm softmax log exp sqrt rsqrt pow div reciprocal sum mean
    var std prod cumsum attention loss entropy einsum lstm gru rnn fft linalg inv gelu silu sigmoid tanh erf
    embedding index scatter gather topk sort all_reduce reduce_scatter all_gather foreach_norm to half float
    bfloat16
    """
)


_READING_I = frozenset({"invert", "int", "index"})


@dataclass(frozen=True)
class Api:
    """One function: the name its calls are counted under, and how a call is treated."""

    name: str
    treatment: Treatment
    is_factory: bool = False  # its memory may be filled behind our back before it is used
    exposes_storage: bool = False  # values may change from now on without a new version
    writes_buffers: bool = False  # changes arguments without a new version, but none that requires a gradient
    writes_below: bool = False  # may change any argument without a new version
    writes: bool = True  # may change its arguments
    arrives_later: bool = False  # can return before the device has copied

    @cached_property
    def is_harmless(self) -> bool:
        """Whether a call writes nothing and shows no memory; asked for every one."""
        return self.is_plain and not self.writes

    @cached_property
    def is_plain(self) -> bool:
        """Whether a call writes no more than its arguments, and nothing that torch does not count."""
        return self.treatment != "engine" and not self.exposes_storage and not self.writes_unversioned

    @property
    def writes_unversioned(self) -> bool:
        """Whether what was known of some argument holds no longer after a call."""
        return self.writes_below or self.writes_buffers


class ApiTable(dict[Callable[..., Any], Api]):
    """Looks functions up once; afterwards a call costs one dictionary access."""

    def __init__(self, *, views: bool, core_only: bool) -> None:
        super().__init__()
        self._views, self._core_only = views, core_only

    def __missing__(self, function: Callable[..., Any]) -> Api:
        api = self[function] = self._describe(function)
        return api

    def _describe(self, function: Callable[..., Any]) -> Api:
        full = _full_name(function)
        if full in _ENGINE or function in (torch.autograd.grad, torch.autograd.backward):
            return Api(full, "engine")
        attribute = full.endswith((".__get__", ".__set__", ".__delete__"))
        name = full.removesuffix(".__get__").rpartition(".")[2] if attribute else full.rpartition(".")[2]
        exposes = full in _EXPOSES or name in _EXPOSES_BY_NAME
        if attribute and not (self._views and name in _VIEW_ATTRIBUTES and full.endswith("__get__")):
            writes = full.endswith((".real.__set__", ".imag.__set__"))
            return Api("", "pass", exposes_storage=exposes, writes=writes)
        is_known = full.startswith(("torch.", "aten.")) and not full.startswith("torch.nn.functional.")
        is_idle = name in _QUESTIONS or (name in _VIEWS and not self._views)
        if (is_known and is_idle) or full.startswith(("profiler.", "prim.")):  # F.unfold, say, is no view
            return Api("", "pass", exposes_storage=exposes, writes=False)
        recorded = _record_name(full.removesuffix(".__get__"))
        is_left_out = self._core_only and not any(word in name for word in _CORE_WORDS)
        writes_below = full.startswith("torch.distributed.") or _writes_by_schema(function, full, name)
        writes_buffers = any(word in full for word in _WRITES_BUFFERS)
        return Api(
            recorded,
            "pass" if is_left_out else "record",
            is_factory=name in _FACTORIES,
            exposes_storage=exposes,
            writes_buffers=writes_buffers,
            writes_below=writes_below,
            arrives_later=name in _ARRIVES_LATER,
            writes=writes_below or writes_buffers or _may_write(full, name),
        )


def _may_write(full: str, name: str) -> bool:
    """Tell whether a call may change its arguments; when in doubt it may."""
    if full.startswith("torch.nn.functional."):
        function = getattr(torch.nn.functional, name, None)
        parameters = getattr(getattr(function, "__code__", None), "co_varnames", ())
        return name.endswith("_") or name.startswith("embedding") or "inplace" in parameters
    if full.startswith("torch.Tensor."):
        written = name.endswith("_") and not name.endswith("__")
        return written or name == "__setitem__" or (name.startswith("__i") and name.strip("_") not in _READING_I)
    rest = full.removeprefix("torch.").removeprefix("_VF.").removeprefix("_C._nn.")
    return not full.startswith("torch.") or "." in rest or name.endswith("_")


def _writes_by_schema(function: Any, full: str, name: str) -> bool:
    """Tell whether an operator says that it changes a tensor where torch's own naming does not say so.

    Of the kernels behind such operators few count a new version.
    """
    if isinstance(function, torch._ops.OpOverload):
        schemas = [function._schema]
    elif isinstance(function, torch._ops.OpOverloadPacket):
        overloads = function.overloads()  # type: ignore[no-untyped-call]
        schemas = [getattr(function, overload)._schema for overload in overloads]
    elif full.startswith("torch.") and not name.endswith("_"):
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    else:
        return False
    return any(
        argument.is_write
        and "Tensor" in str(argument.type)
        and not (argument.is_out and schema.name.startswith("aten::"))
        for schema in schemas
        for argument in schema.arguments
    )


def record_name_of(function: Any) -> str:
    """Return what calls of a function are counted under."""
    return _record_name(_full_name(function))


def _full_name(function: Any) -> str:
    name = resolve_name(function)
    if name is not None:
        return str(name)
    module = getattr(function, "__module__", None) or "torch"
    return f"{module}.{getattr(function, '__name__', type(function).__name__)}"


def _record_name(full: str) -> str:
    """Return `Functional.linear` for torch.nn.functional.linear, and so on by the seeds' prefixes."""
    prefixes = (("torch.nn.functional.", "Functional."), ("torch.Tensor.", "Tensor."), ("aten.", "Aten."))
    for start, prefix in prefixes:
        if full.startswith(start):
            rest = full.removeprefix(start)
            return prefix + (rest.partition(".")[0] if prefix == "Aten." else rest)
    if full.startswith(("npu.", "torch_npu.")):
        return "NPU." + full.rpartition(".")[2]
    if full.startswith("torch.distributed."):
        return "Distributed." + full.rpartition(".")[2]
    if full.startswith("torch."):
        rest = full.removeprefix("torch.").removeprefix("_VF.")
        return f"VF.{rest}" if rest in _RNN else f"Torch.{rest}"
    namespace, _, operator = full.partition(".")
    return f"Ops.{namespace}.{operator.partition('.')[0]}"
