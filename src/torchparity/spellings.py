"""The one name of an operator that Python, torch's aliases and other tools spell differently."""

from __future__ import annotations

_ARITHMETIC = {"add", "sub", "mul", "matmul", "pow"}
_COMMUTING = {"add", "mul", "and", "or", "xor"}
_SPELLING = {
    "truediv": "div",
    "div": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
    "invert": "bitwise_not",
    "pos": "positive",
}
_ALIAS = {
    "true_divide": "div",
    "divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "negative": "neg",
    "absolute": "abs",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctanh": "atanh",
    "arctan2": "atan2",
    "concat": "cat",
    "concatenate": "cat",
    "clip": "clamp",
    "fix": "trunc",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "moveaxis": "movedim",
    "ger": "outer",
    "inverse": "inv",
}


def canonical_operator(operator: str) -> str:
    """Return the one name of an operator that tools and torch aliases spell differently.

    `__add__` and `__radd__` are add, `__iadd__` is add_, `multiply` is mul. Reflected
    operators that do not commute keep their r: `__rsub__` is rsub.
    """
    namespace, dot, name = operator.rpartition(".")
    return namespace + dot + _canonical(name)


def _canonical(name: str) -> str:
    if name.startswith("__") and name.endswith("__") and len(name) > 4:
        name = name[2:-2]
        if name in _SPELLING:
            return _SPELLING[name]
        if name[:1] == "i" and (name[1:] in _SPELLING or name[1:] in _ARITHMETIC):
            return _SPELLING.get(name[1:], name[1:]) + "_"
        if name[:1] == "r" and name[1:] in _COMMUTING:
            return _SPELLING.get(name[1:], name[1:])
        return {"rtruediv": "rdiv", "rfloordiv": "rfloor_divide", "rmod": "rremainder"}.get(name, name)
    stem, in_place = (name[:-1], "_") if name.endswith("_") and not name.endswith("__") else (name, "")
    return _ALIAS.get(stem, stem) + in_place
