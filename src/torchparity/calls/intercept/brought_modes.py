"""The mode that sees APIs in threads to which a module brought it, until that module has taken it back."""

from __future__ import annotations

import threading

from torch import nn
from torch.overrides import TorchFunctionMode

from torchparity.calls.guard.inert_hooks import HookedModule
from torchparity.calls.guard.mode_stack import is_on, put_below, take_off


class BroughtModes:
    """Puts the mode on the stack of a thread that calls a module, and takes it off when the call has ended.

    A recording may end meanwhile, in another thread: the hook that runs after the call stays until then.
    """

    def __init__(self, mode: TorchFunctionMode) -> None:
        self._mode = mode
        self._calls: set[tuple[int, int]] = set()  # that are under way: thread and module
        self._still_hooked: dict[int, HookedModule] = {}

    def bring(self, module: nn.Module) -> bool:
        """Put the mode on this thread's stack, for a call of the module; tell whether it was not there."""
        if is_on(self._mode):
            return False
        put_below(self._mode)
        self._calls.add((threading.get_ident(), id(module)))
        return True

    def take_back(self, module: nn.Module) -> None:
        """Take the mode off: the call has ended."""
        take_off(self._mode)
        self._calls.discard((threading.get_ident(), id(module)))
        if not self._is_called(module):
            hooked = self._still_hooked.pop(id(module), None)
            if hooked is not None:
                hooked.take_off()

    def take_off_hooks(self, hooked: HookedModule) -> None:
        """Take off the hooks of a module, but the last where it is to take the mode back."""
        module = hooked.reference()
        is_called = module is not None and self._is_called(module)
        hooked.take_off(but_the_last=is_called)
        if is_called:
            self._still_hooked[id(module)] = hooked

    def note_hooked(self, module: nn.Module) -> None:
        """Note that a module has its hooks again."""
        self._still_hooked.pop(id(module), None)

    def _is_called(self, module: nn.Module) -> bool:
        return any(called == id(module) for _, called in list(self._calls))
