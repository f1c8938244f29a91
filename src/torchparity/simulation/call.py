"""One call of an operator on the host, and what may stand between the caller and the kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch


@dataclass(frozen=True)
class HostCall:
    """An operator with arguments on the host; `name` is that of ATen without its overload, such as "addmm"."""

    name: str
    operator: torch._ops.OpOverload
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]

    def argument(self, name: str) -> Any:
        """Return an argument by its name in the operator's schema; its default where it was not given."""
        if name in self.keywords:
            return self.keywords[name]
        for position, described in enumerate(self.operator._schema.arguments):
            if described.name == name:
                return self.arguments[position] if position < len(self.arguments) else described.default_value
        raise KeyError(name)

    def has(self, name: str) -> bool:
        """Tell whether the operator has an argument of this name."""
        return any(described.name == name for described in self.operator._schema.arguments)

    def with_argument(self, name: str, value: Any) -> HostCall:
        """Return the call with another value for an argument of the schema."""
        described = self.operator._schema.arguments
        position = next(index for index, each in enumerate(described) if each.name == name)
        if described[position].kwarg_only:
            return replace(self, keywords={**self.keywords, name: value})
        given = list(self.arguments)
        given += [each.default_value for each in described[len(given) : position + 1]]
        given[position] = value
        return replace(self, arguments=tuple(given))


Kernel = Callable[[HostCall], Any]


class Layer(Protocol):
    """A change to how some operators compute: a precision behaviour or a planted fault."""

    def concerns(self, name: str) -> bool:
        """Tell whether calls of the operator pass through this layer."""

    def run(self, call: HostCall, kernel: Kernel) -> Any:
        """Return the call's result; `kernel` is the rest of the way."""
