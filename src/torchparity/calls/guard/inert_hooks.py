"""Hooks on the user's modules and parameters that leave no trace in copies of them."""

from __future__ import annotations

import functools
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

import torch
from torch import nn

from torchparity.calls.guard.exhausting import exhaust


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
            before = {key: value for key, value in entries if key in ours or key in others}
            _exchange(hooks, others, {**before, **others})


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


class HookedModule:
    """Our hooks on a module: the first that runs before its calls, and the last after them.

    Those that were taken off can be put on again: torch gives the number of a handle to nobody else, and what is
    made once for all steps the garbage collector need not walk in each.
    """

    __slots__ = ("_after", "_before", "_entered", "_left", "name", "reference")

    def __init__(self, reference: weakref.ref[nn.Module], name: str, entered: Hook, left: Hook) -> None:
        self.reference, self.name = reference, name
        self._entered, self._left = entered, left
        self._before: Any = None
        self._after: Any = None

    def put_on(self, module: Any) -> None:
        """Hook the module, which is the one that is referred to."""
        before, after = self._before, self._after
        of_after, of_before = ([getattr(module, table) for table in names] for names in _TABLES)
        if before is None or not (_are_of(before, of_before) and _are_of(after, of_after)):
            self._before = module.register_forward_pre_hook(self._entered, with_kwargs=True, prepend=True)
            self._after = module.register_forward_hook(self._left, with_kwargs=True, always_call=True)
            return
        of_before[0][before.id] = self._entered
        of_before[0].move_to_end(before.id, last=False)
        of_after[0][after.id] = self._left
        for table in of_after[1:]:
            table[after.id] = True
        for table in of_before[1:]:
            table[before.id] = True

    def is_on(self) -> bool:
        """Tell whether the module has both hooks: the user may have cleared its tables."""
        module: Any = self.reference()
        return module is None or (
            self._before.id in module._forward_pre_hooks and self._after.id in module._forward_hooks
        )

    def take_off(self, *, but_the_last: bool = False) -> None:
        """Take both hooks off; `but_the_last` leaves the one after its calls, for one that is under way."""
        self._before.remove()
        if not but_the_last:
            self._after.remove()


def _are_of(handle: Any, tables: Sequence[Any]) -> bool:
    """Tell whether these are the very tables that a handle takes its hook off: the user may have replaced one."""
    references = (handle.hooks_dict_ref, *handle.extra_dict_ref)
    return all(reference() is table for reference, table in zip(references, tables, strict=True))


class ParameterTable(OrderedDict[int, Any]):
    """A table of hooks on a parameter that had none before ours.

    It stays when the recording is over, empty, as torch leaves one too. Where another takes its place, even later,
    torch frees what calls the hooks in it, and a backward in another thread may be about to do so.
    """


def remove_empty_table(tensor: Any) -> None:
    """Leave a tensor that is to be swapped as it would be without us: with a table its later hooks are ignored."""
    table = tensor._post_accumulate_grad_hooks
    if isinstance(table, ParameterTable) and not table:
        tensor._post_accumulate_grad_hooks = None


def has_hooks_of_others(tensor: Any) -> bool:
    """Tell whether a tensor has a table of hooks that was not made for ours, or hooks of others in it."""
    table = tensor._post_accumulate_grad_hooks
    is_ours = table is None or isinstance(table, ParameterTable)
    return not is_ours or any(not isinstance(hook, Hook) for hook in (table or {}).values())


class HookedParameter:
    """A parameter that we have a hook on, before those of others: they may use the gradient up.

    One that was taken off can be put on again, as those of a `HookedModule`.
    """

    __slots__ = ("_handle", "_hook", "identity")

    def __init__(self, parameter: nn.Parameter, hook: Hook) -> None:
        self.identity, self._hook = id(parameter), hook
        self._register(parameter)

    def is_of(self, parameter: torch.Tensor) -> bool:
        """Tell whether it is this one; where it is gone, another may be at its address."""
        if self.identity != id(parameter):
            return False
        hooks: Any = parameter._post_accumulate_grad_hooks
        return hooks is not None and self._handle.hooks_dict_ref() is hooks

    def put_on(self, parameter: Any) -> None:
        """Hook the parameter."""
        if self.is_of(parameter):
            parameter._post_accumulate_grad_hooks[self._handle.id] = self._hook
            _go_first(self._handle.id, parameter._post_accumulate_grad_hooks)
        else:  # it was swapped for another
            self._register(parameter)

    def take_off(self) -> None:
        self._handle.remove()

    def _register(self, parameter: Any) -> None:
        if parameter._post_accumulate_grad_hooks is None:
            parameter._post_accumulate_grad_hooks = ParameterTable()
        self._handle: Any = parameter.register_post_accumulate_grad_hook(self._hook)
        _go_first(self._handle.id, parameter._post_accumulate_grad_hooks)


def _go_first(key: int, hooks: dict[int, Any]) -> None:
    """Put a hook before the others; torch goes by the order of insertion, not by that of an OrderedDict."""
    if len(hooks) == 1:
        return
    others = dict(hooks)
    others.pop(key, None)
    _exchange(hooks, others, others)


def _exchange(table: dict[int, Any], old: Iterable[int], new: Mapping[int, Any]) -> None:
    """Remove some entries and add others with no chance for another thread, whose calls would miss them, in between."""
    exhaust(chain(map(table.pop, list(old), repeat(None)), map(table.__setitem__, list(new), list(new.values()))))
