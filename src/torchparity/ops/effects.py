"""Side effects of torch's functions: in-place writes, exposed or fresh memory, results that arrive late."""

from __future__ import annotations

from enum import Flag, auto
from typing import Any

import torch


class Effect(Flag):
    """Effects of a call on memory, as far as a function's name or schema tells."""

    NONE = 0
    WRITES = auto()  # changes an argument in place
    WRITES_BUFFERS = auto()  # changes arguments that need no gradient without bumping Tensor._version
    WRITES_UNVERSIONED = auto()  # may change any argument without bumping Tensor._version
    EXPOSES = auto()  # hands out the memory itself, which may be written from then on without a new version
    CREATES = auto()  # returns memory that may be filled unseen before it is used
    UNINITIALISED = auto()  # returns memory that nobody has written
    COPIES = auto()  # shows the same values in another form, in new memory where it must
    ARRIVES_LATER = auto()  # can return before a device or another process has written the result


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


QUESTIONS = words(
    """dim size stride numel nelement ndimension storage_offset data_ptr element_size itemsize nbytes is_contiguous
    is_complex is_floating_point is_signed is_pinned is_shared is_set_to is_inference is_neg is_conj
    is_same_size is_coalesced get_device has_names requires_grad_ retain_grad register_hook
    register_post_accumulate_grad_hook storage untyped_storage _typed_storage _is_view __len__ __hash__ __repr__
    __str__ __format__ __reduce_ex__ __setstate__ __dir__ __iter__ __contains__ sparse_dim dense_dim result_type
    can_cast rename_ rename align_as is_distributed __array__ __dlpack__ __dlpack_device__ _backward_hooks
    _version has_torch_function _assert_async record_stream
    """
)
VIEWS = words(
    """view view_as reshape reshape_as transpose transpose_ permute t t_ squeeze squeeze_ unsqueeze unsqueeze_
    expand expand_as flatten unflatten ravel select narrow unbind split split_with_sizes chunk tensor_split
    hsplit vsplit dsplit swapaxes swapaxes_ swapdims swapdims_ movedim moveaxis diagonal as_strided as_strided_
    unfold detach detach_ alias contiguous broadcast_to broadcast_tensors view_as_real view_as_complex adjoint
    atleast_1d atleast_2d atleast_3d real imag T mT H mH resolve_conj resolve_neg conj
    """
)
VIEW_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag"})
_FACTORIES = words(
    """empty empty_like empty_strided zeros zeros_like ones ones_like full full_like new_empty new_empty_strided
    new_zeros new_ones new_full new_tensor tensor empty_permuted empty_quantized
    """
)
_UNINITIALISED = words("empty empty_like empty_strided empty_permuted empty_quantized new_empty new_empty_strided")
_COPYING_VIEWS = words(
    """reshape reshape_as contiguous flatten ravel resolve_conj resolve_neg unflatten atleast_1d atleast_2d atleast_3d
    """
)
# In place, and some elements may stay as they were.
PARTIAL_WRITES = words(
    """index_put_ _index_put_impl_ index_copy_ index_fill_ scatter_ masked_fill_ masked_scatter_ put_ fill_diagonal_
    """
)
_EXPOSING = frozenset({"torch.Tensor.data.__get__", "torch.Tensor.data.__set__", "torch.Tensor.untyped_storage"})
_EXPOSING_BY_NAME = words(
    """storage data_ptr __array__ __dlpack__ numpy _typed_storage __cuda_array_interface__ share_memory_
    """
)
_WITH_BUFFERS = ("batch_norm", "instance_norm")
_COPYING = frozenset({"to", "copy_", "type", "_foreach_copy_"})
_READING_I = frozenset(
    {"invert", "int", "index"}
)  # __invert__, __int__ and __index__ begin like __iadd__, and write nothing


def effects_of(function: Any, full: str) -> Effect:
    """Return what a call of a function may do; when in doubt about a write, it may."""
    name = _last_part(full)
    effects = exposure(full, name)
    if name in _FACTORIES:
        effects |= Effect.CREATES | (Effect.UNINITIALISED if name in _UNINITIALISED else Effect.NONE)
    if name in _COPYING_VIEWS:
        effects |= Effect.COPIES
    if name in _COPYING or full.startswith("_c10d_functional"):
        effects |= Effect.ARRIVES_LATER
    if any(word in full for word in _WITH_BUFFERS):
        effects |= Effect.WRITES_BUFFERS | Effect.WRITES
    if full.startswith("torch.distributed.") or _writes_by_schema(function, full, name):
        effects |= Effect.WRITES_UNVERSIONED | Effect.WRITES
    if _may_write(full, name):
        effects |= Effect.WRITES
    return effects


def exposure(full: str, name: str) -> Effect:
    """Return whether a call hands out memory that can then be written without a new version."""
    return Effect.EXPOSES if full in _EXPOSING or name in _EXPOSING_BY_NAME else Effect.NONE


def _last_part(full: str) -> str:
    return full.removesuffix(".__get__").rpartition(".")[2]


def _may_write(full: str, name: str) -> bool:
    if full.startswith("torch.nn.functional."):
        function = getattr(torch.nn.functional, name, None)
        parameters = getattr(getattr(function, "__code__", None), "co_varnames", ())
        return name.endswith("_") or name.startswith("embedding") or "inplace" in parameters
    if full.startswith("torch.Tensor."):
        is_in_place = name.endswith("_") and not name.endswith("__")
        return is_in_place or name == "__setitem__" or (name.startswith("__i") and name.strip("_") not in _READING_I)
    rest = full.removeprefix("torch.").removeprefix("_VF.").removeprefix("_C._nn.")
    return not full.startswith("torch.") or "." in rest or name.endswith("_")


def _writes_by_schema(function: Any, full: str, name: str) -> bool:
    """Tell whether an operator's schema says that it changes a tensor where torch's naming does not.

    Of the kernels behind such operators few bump a version counter.
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
