"""Hooks on the user's modules and parameters that leave no trace in copies of them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn


class Hook:
    """A hook of which a copy or a pickle of the model has none, or an idle one that needs nothing of ours.

    Nor does it do anything while a compiler or tracer looks at the model, which would put
    our work into the user's graph.
    """

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work

    def __call__(self, *arguments: Any) -> Any:
        if not torch.compiler.is_compiling() and torch._C._get_tracing_state() is None:
            return self._work(*arguments)
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial, (sys.audit, "torchparity.idle_hook")  # which takes anything and does nothing


# The tables of a module's hooks, each with those that say more about the same hooks: a compiler reads them too.
_TABLES = (
    ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
    ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"),
)


class _Table(NamedTuple):
    """One table of a module's hooks as it was, and the keys of ours."""

    hooks: dict[int, Any]
    entries: list[tuple[int, Any]]
    ours: frozenset[int]


class HiddenHooks:
    """Our hooks on some modules, off until they are put back; those of others stay."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._tables = [table for module in modules for table in _tables_with_ours(module)]
        for table in self._tables:
            for key in table.ours.intersection(table.hooks):
                del table.hooks[key]

    def put_back(self) -> None:
        """Put them where they were, among the hooks of others that are still there."""
        for hooks, entries, ours in self._tables:
            others = dict(hooks)
            hooks.clear()
            hooks.update((key, value) for key, value in entries if key in ours or key in others)
            hooks.update(others)


def _tables_with_ours(module: nn.Module) -> Iterator[_Table]:
    for names in _TABLES:
        ours = frozenset(key for key, hook in getattr(module, names[0]).items() if isinstance(hook, Hook))
        if ours:
            for hooks in (getattr(module, name) for name in names):
                yield _Table(hooks, list(hooks.items()), ours)


def state_without_hooks(state: Any) -> Any:
    """Return the state of a module, as it is pickled, without our hooks."""
    if not isinstance(state, dict):
        return state
    for names in _TABLES:
        ours = {key for key, hook in state.get(names[0], {}).items() if isinstance(hook, Hook)}
        for name in names if ours else ():
            others = [(key, value) for key, value in state[name].items() if key not in ours]
            state = {**state, name: type(state[name])(others)}
    return state


class HookedParameter:
    """A parameter that we have a hook on, before those of others: they may use the gradient up."""

    __slots__ = ("_identity", "handle")

    def __init__(self, parameter: nn.Parameter, hook: Hook) -> None:
        self._identity = id(parameter)
        self.handle: Any = parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        hooks: Any = parameter._post_accumulate_grad_hooks
        others = [(key, other) for key, other in hooks.items() if other is not hook]
        for key, _ in others:  # torch goes by the order of insertion, not by that of an OrderedDict
            del hooks[key]
        hooks.update(others)

    def is_of(self, parameter: nn.Parameter) -> bool:
        """Tell whether it is this one; where it is gone, another may be at its address."""
        return self._identity == id(parameter) and self.handle.hooks_dict_ref() is not None
