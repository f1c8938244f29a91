"""Seeing calls: interceptors make a `Call` of each and pass it through one dispatcher, which tells its listeners."""

from torchparity.calls.arguments import PLAIN, Flat, flat_output, tensors_in
from torchparity.calls.audience import Attention
from torchparity.calls.call import Call
from torchparity.calls.dispatcher import Dispatcher
from torchparity.calls.guard.boundary import attempted, text_of
from torchparity.calls.guard.inert_hooks import Hook
from torchparity.calls.guard.mode_stack import modes_of, put_below, take_off
from torchparity.calls.guard.patches import Patches
from torchparity.calls.intercept.apis import ApiMode
from torchparity.calls.intercept.module_names import named_modules, takes_hooks
from torchparity.calls.interceptors import Interceptors
from torchparity.calls.listener import Gradients, Interest, Listener
from torchparity.calls.listening import listening

__all__ = [
    "PLAIN",
    "ApiMode",
    "Attention",
    "Call",
    "Dispatcher",
    "Flat",
    "Gradients",
    "Hook",
    "Interceptors",
    "Interest",
    "Listener",
    "Patches",
    "attempted",
    "flat_output",
    "listening",
    "modes_of",
    "named_modules",
    "put_below",
    "take_off",
    "takes_hooks",
    "tensors_in",
    "text_of",
]
