"""The values of one tensor of a model, kept while the model runs and given back afterwards."""

from __future__ import annotations

import torch

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class KeptValues:
    """A tensor and a copy of its values; one that nobody wrote is not touched when it is put back."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor, self._version = tensor, _version_of(tensor)
        self._requires_grad, self._has_graph = tensor.requires_grad, tensor.grad_fn is not None
        self._is_plain = _is_plain(tensor)
        self._place = tensor.detach()  # the same memory, should the tensor be given other memory
        self._values = tensor.detach().clone()

    def put_back(self) -> None:
        """Give the tensor its memory, its values and its place in the graph back."""
        if self._tensor.is_meta:
            return
        with torch.inference_mode(self._place.is_inference()), torch.no_grad():
            if self._is_plain and _layout(self._tensor) != _layout(self._place):
                self._tensor.data = self._place
            if self._is_written():
                (self._place if self._is_plain else self._tensor).copy_(self._values)
        self._leave_graph()

    def _is_written(self) -> bool:
        if not self._is_plain:
            return self._version is None or _version_of(self._tensor) != self._version
        # By its bits: a batch norm writes its running statistics without a new version, and so does `.data`.
        return not torch.equal(_bits(self._place), _bits(self._values))

    def _leave_graph(self) -> None:
        """Undo what an in-place write with a gradient, or `requires_grad_`, has done."""
        tensor = self._tensor
        if tensor.grad_fn is not None and not self._has_graph and not tensor._is_view():
            tensor.detach_()
        if tensor.is_leaf and tensor.requires_grad != self._requires_grad:
            tensor.requires_grad_(self._requires_grad)


def _version_of(tensor: torch.Tensor) -> int | None:
    """Return how often a tensor was written; None for one of inference mode, which does not count."""
    return None if tensor.is_inference() else tensor._version


def _is_plain(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor has memory of its own that can be read as whole numbers."""
    is_torch_s = type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
    is_dense = tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_meta
    return is_torch_s and is_dense and not tensor.is_conj() and not tensor.is_neg()


def _layout(tensor: torch.Tensor) -> tuple[object, ...]:
    if tensor.layout is not torch.strided:
        return (tensor.layout,)
    return tensor.data_ptr(), tensor.dtype, tensor.device, tensor.shape, tensor.stride()


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return real.view(_BITS[real.element_size()])
