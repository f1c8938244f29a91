"""Checks of the numbers that a fault is given."""

from __future__ import annotations

from torchparity.errors import ConfigError


def check_whole_number(owner: object, field: str, *, least: int | None = None, besides: str = "") -> None:
    """Raise `ConfigError` where a field of a fault is no whole number, or one below `least`."""
    value = getattr(owner, field)
    if isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least):
        return
    wanted = "a whole number" if least is None else f"a whole number from {least} on"
    raise wrong_value(owner, field, f"{wanted}{besides}")


def check_number(owner: object, field: str, *, is_positive: bool = False) -> None:
    """Raise `ConfigError` where a field of a fault is no number, or not above 0 where it has to be."""
    value = getattr(owner, field)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and (not is_positive or value > 0):
        return
    raise wrong_value(owner, field, "a number above 0" if is_positive else "a number")


def wrong_value(owner: object, field: str, wanted: str) -> ConfigError:
    """Return the error that says what a field takes."""
    return ConfigError(f"{type(owner).__name__} was given {field}={getattr(owner, field)!r}; it takes {wanted}.")
