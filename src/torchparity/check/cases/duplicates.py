"""Calls that differ in nothing but the values of their tensors, of which one is enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torchparity.check.cases.case import Case
from torchparity.records import TensorLeaf


def without_duplicates(cases: Iterable[Case]) -> Iterator[Case]:
    """Yield the first of the calls that share API, shapes, dtypes and all other arguments."""
    known: set[str] = set()
    for case in cases:
        form = form_of(case)
        if form not in known:
            known.add(form)
            yield case


def form_of(case: Case) -> str:
    """Return what calls have in common that differ in nothing but the values of their tensors."""
    forward = case.forward
    return repr((case.api, _plain(forward.input_args), _plain(forward.input_kwargs), case.backward is not None))


def _plain(nest: Any) -> Any:
    if isinstance(nest, TensorLeaf):
        return nest.dtype, nest.shape, nest.requires_grad
    if isinstance(nest, dict):
        return {key: _plain(entry) for key, entry in nest.items()}
    return [_plain(entry) for entry in nest] if isinstance(nest, (list, tuple)) else nest
