"""The shortest way to a listener: `with listening(MyListener()):`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn

from torchparity.calls.audience import Attention
from torchparity.calls.dispatcher import Dispatcher
from torchparity.calls.interceptors import Interceptors
from torchparity.calls.listener import Listener


@contextmanager
def listening(
    *listeners: Listener, model: nn.Module | Sequence[nn.Module] | None = None, sees_apis: bool = True
) -> Iterator[Dispatcher]:
    """Tell listeners of every call inside the block, those of the modules of `model` too where it is given."""
    dispatcher = Dispatcher(*listeners)
    interceptors = Interceptors(dispatcher, sees_apis=sees_apis)
    dispatcher.attention = Attention.LISTENING
    interceptors.attach(model)
    try:
        yield dispatcher
    finally:
        dispatcher.attention = Attention.OFF
        interceptors.detach()
        interceptors.end()
