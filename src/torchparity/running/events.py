"""Sees what a script does that says where its steps are: batches, optimizers, backward passes, calls of the model."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import nn
from torch._C._dynamo.eval_frame import set_eval_frame
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook
from torch.utils.data.dataloader import _BaseDataLoaderIter

from torchparity.calls import Hook, Patches
from torchparity.running.step_rule import StepRule


class Watching(Protocol):
    """A listener to what has no part in the rule of steps."""

    def called(self, module: nn.Module, *, with_gradients: bool) -> nn.Module | None:
        """Look at a module that is about to be called; return the one whose calls are those of the model, if known."""

    def passed_back(self, losses: object) -> None:
        """Look at what backward was called on."""

    def optimizer_seen(self, optimizer: Optimizer) -> bool:
        """Look at an optimizer that was made or steps; tell whether it trains modules that can be called."""


class _Depth(threading.local):
    """The depth of a thread in functions that call each other."""

    value = 0


class Events:
    """Tells a rule of what happens in this process until `detach`; changes nothing of it.

    `watching` is told of every module that is called until `watch_alone`.
    """

    def __init__(self, rule: StepRule, watching: Watching) -> None:
        self._rule, self._watching = rule, watching
        self._patches, self._watching_all = Patches(), Patches()
        self._handles: list[Any] = []
        self._hooked: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._loader: weakref.ref[Any] | None = None
        self._backward = _Depth()
        self._compiled_model = _Depth()  # in calls of what torch.compile made of the model: each is one call of it
        self._watched: weakref.ref[nn.Module] | None = None
        self._watches_one = False  # module, which is known for the model
        self._steps_seen = 0
        self._process = os.getpid()

    def attach(self) -> None:
        self._patches.put(_BaseDataLoaderIter, "__next__", self._batch)
        self._patches.put(Optimizer, "__init__", self._optimizer_made)
        self._patches.put(torch.Tensor, "backward", self._backward_called)
        self._patches.put(torch.autograd, "backward", self._backward_called)
        self._patches.put(GradScaler, "step", self._scaled_step)
        self._patches.put(torch, "compile", self._compile_called)
        self._handles.append(register_optimizer_step_pre_hook(self._optimizer_steps))
        self.watch_all()

    def detach(self) -> None:
        self._watching_all.end()
        self._patches.end()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def watch_all(self) -> None:
        """See the calls of every module."""
        self._watches_one = False
        if not self._watching_all:
            self._watching_all.put(nn.Module, "__call__", self._any_module)

    def watch_alone(self, module: nn.Module) -> None:
        """See the calls of one module alone from here on: patching the class of all is not for ever."""
        watched = self._watched = weakref.ref(module)
        self._watches_one = True
        if "_orig_mod" in module._modules:  # made by torch.compile, which follows no patch of that class
            return
        self._watching_all.end()

        def only(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def call(called: nn.Module, *args: Any, **kwargs: Any) -> Any:
                # Asked first: a compiler that follows us must find nothing of ours.
                if not torch.compiler.is_compiling() and watched is self._watched and watched() is called:
                    _uncompiled(self._model_called)
                return original(called, *args, **kwargs)

            return call

        self._patches.put(type(module), "__call__", only)

    def _is_here(self) -> bool:
        """Tell whether a call counts: not in a forked worker, in a recomputed forward, or after `detach`."""
        is_recomputed = torch._C._current_graph_task_id() != -1
        return bool(self._patches) and os.getpid() == self._process and not is_recomputed

    def _any_module(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                _uncompiled(self._any_called, module)
            return original(module, *args, **kwargs)

        return call

    def _any_called(self, module: nn.Module) -> None:
        """Take a module that is about to be called for the model, or tell that the model is."""
        if not self._is_here():
            return
        if self._watching_all and not self._watches_one:
            watched = self._watching.called(module, with_gradients=torch.is_grad_enabled())
            self._watched = self._watched if watched is None else weakref.ref(watched)
        # Also later: who took the bound method before, as generate() does, calls this for ever.
        if self._watched is not None and self._watched() is module:
            self._model_called()

    def _model_called(self) -> None:
        if self._is_here() and not self._compiled_model.value:
            self._rule.model_called(with_gradients=torch.is_grad_enabled())

    def _batch(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(original)
        def next_batch(loader: Any) -> Any:
            if not self._patches or os.getpid() != self._process:
                return original(loader)
            self._rule.batch_asked()
            try:
                batch = original(loader)
            except StopIteration:
                if self._loader is not None and self._loader() is loader:
                    self._rule.batches_ended()
                raise
            self._loader = weakref.ref(loader, self._loader_gone)
            self._rule.batch_given(id(loader._dataset))
            return batch

        return next_batch

    def _loader_gone(self, gone: weakref.ref[Any]) -> None:
        if gone is self._loader:
            self._rule.batches_ended()

    def _optimizer_made(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def init(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            if self._patches and os.getpid() == self._process:
                self._rule.optimizer_made(of_modules=self._watching.optimizer_seen(optimizer))

        return init

    def _compile_called(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """See the calls of what `torch.compile` makes of a module: it leaves none of the module itself to see."""

        @functools.wraps(original)
        def compile_and_watch(*args: Any, **kwargs: Any) -> Any:
            compiled = original(*args, **kwargs)
            if self._patches and isinstance(compiled, nn.Module) and "_orig_mod" in compiled._modules:
                self._handles.append(compiled.register_forward_pre_hook(Hook(self._enters_compiled), prepend=True))
                self._handles.append(compiled.register_forward_hook(Hook(self._leaves_compiled), always_call=True))
            return compiled

        return compile_and_watch

    def _enters_compiled(self, compiled: nn.Module, *_: Any) -> None:
        if self._watched is not None and self._watched() is compiled._modules["_orig_mod"]:
            _uncompiled(self._model_called)
            self._compiled_model.value += 1

    def _leaves_compiled(self, *_: Any) -> None:
        self._compiled_model.value = max(0, self._compiled_model.value - 1)

    def _optimizer_steps(self, optimizer: Optimizer, *_: Any) -> None:
        # Its end is seen by a hook of its own: those of all optimizers may not change while torch goes through them.
        if optimizer not in self._hooked:
            self._hooked.add(optimizer)
            _uncompiled(self._watching.optimizer_seen, optimizer)
            self._handles.append(optimizer.register_step_post_hook(self._optimizer_stepped))

    def _optimizer_stepped(self, optimizer: Optimizer, *_: Any) -> None:
        self._steps_seen += 1
        _uncompiled(self._stepped, id(optimizer))

    def _stepped(self, optimizer: int) -> None:
        if self._patches and os.getpid() == self._process:
            self._rule.optimizer_stepped(optimizer)

    def _scaled_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Take a step that a GradScaler leaves out, because of an overflow, for a step all the same."""

        @functools.wraps(original)
        def step(scaler: GradScaler, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            before = self._steps_seen
            result = original(scaler, optimizer, *args, **kwargs)
            if self._steps_seen == before:
                self._optimizer_stepped(optimizer)
            return result

        return step

    def _backward_called(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            with self._one_deeper():
                result = original(*args, **kwargs)
            if not self._backward.value:
                _uncompiled(self._passed_back, args[0] if args else kwargs.get("tensors"))
            return result

        return backward

    def _passed_back(self, losses: object) -> None:
        if self._is_here():
            self._watching.passed_back(losses)
            self._rule.backward_ended()

    @contextmanager
    def _one_deeper(self) -> Iterator[None]:
        self._backward.value += 1
        try:
            yield
        finally:
            self._backward.value -= 1


def _uncompiled(work: Callable[..., object], *arguments: Any) -> None:
    """Do something while no compiler looks on: in a compiled region it would compile what we do."""
    callback = set_eval_frame(None)
    try:
        work(*arguments)
    finally:
        set_eval_frame(callback)
