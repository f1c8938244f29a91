"""Reading runs of ptdbg_ascend: a .pkl file of JSON lines, each one item or one call stack.

    ["Functional_conv2d_1_forward_input.0", 1, [], "torch.float32", [2, 3], [max, min, mean]]
    ["Functional_conv2d_1_forward_stack_info", [["net.py", "12", "forward", "x = conv(x)"]]]

Later versions append the norm to the statistics and a checksum to the line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from torchparity.errors import DamagedFileError, RecordNameError, UnsafeFileError
from torchparity.naming import parse_record, split_item
from torchparity.records import Leaf, Nest, Record, StackGroup, Statistics, TensorLeaf, ValueLeaf
from torchparity.storage.encoding.json_text import decode
from torchparity.storage.files.untrusted import read_file

_STACK = "_stack_info"
_DEEPEST = 32
_MOST_LEFT_OUT = 64  # positions without a line: scalars that ptdbg was told to leave out
_POSITION = r"(?a)\d{1,4}"
_PYTHON_TYPES = {"<class 'int'>": "int", "<class 'float'>": "float", "<class 'bool'>": "bool", "<class 'str'>": "str"}
Tree = dict[str, Any]


def read_pkl(path: Path) -> tuple[dict[str, Record], list[StackGroup], list[str]]:
    """Return records, call stacks and one sentence for every line that could not be used."""
    content = read_file(path)
    if content[:1] == b"\x80":
        raise UnsafeFileError(path, "it is a pickle, not the JSON lines that ptdbg writes; it was not loaded")
    trees: dict[str, Tree] = {}
    stacks: list[StackGroup] = []
    problems: list[str] = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            _take(decode(line, path), trees, stacks)
        except (DamagedFileError, RecordNameError, ValueError, TypeError, LookupError, RecursionError) as error:
            problems.append(f"{path}: line {number} is not an item ({str(error)[:100]}).")
    records: dict[str, Record] = {}
    for name, tree in trees.items():
        try:
            records[name] = _record(name, tree)
        except ValueError as error:
            problems.append(f"{path}: record {name[:120]!r} cannot be used: {error}.")
    if problems and not records and not stacks:
        raise DamagedFileError(path, "it has no line that ptdbg would write")
    return records, stacks, problems


def _take(line: Any, trees: dict[str, Tree], stacks: list[StackGroup]) -> None:
    name = line[0]
    if not isinstance(name, str):
        raise TypeError("no name")
    if name.endswith(_STACK):
        record = str(parse_record(name.removesuffix(_STACK)))
        trees.setdefault(record, {})
        stacks.append(StackGroup([record], [_frame(frame) for frame in line[1]]))
        return
    record_name, item = split_item(name)
    *path, last = item.split(".")
    if len(path) > _DEEPEST:
        raise ValueError(f"nested more than {_DEEPEST} deep")
    leaf = _leaf(name, line)
    tree = trees.setdefault(str(record_name), {})
    for part in path:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise ValueError(f"{item} lies inside a tensor")
    tree[last] = leaf


def _leaf(name: str, line: list[Any]) -> Leaf:
    dtype, shape, summary = str(line[3]), line[4], line[5]
    if dtype in _PYTHON_TYPES:
        return ValueLeaf(_PYTHON_TYPES[dtype], summary[0] if summary else None)
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"shape {str(shape)[:40]}")
    # An empty or boolean tensor has [] in place of each number.
    numbers = [value if isinstance(value, (int, float)) else None for value in summary] + [None] * 4
    checksum = line[6] if len(line) > 6 and isinstance(line[6], str) else None
    return TensorLeaf(
        dtype=dtype,
        shape=tuple(shape),
        statistics=Statistics(max=numbers[0], min=numbers[1], mean=numbers[2], norm=numbers[3]),
        checksum=checksum,
        data_name=f"{name}.npy",
    )


def _frame(frame: Any) -> str:
    if isinstance(frame, list) and len(frame) == 4:
        return f"File {frame[0]}, line {frame[1]}, in {frame[2]}, \n {frame[3]}"
    return str(frame)


def _record(name: str, tree: Tree) -> Record:
    inputs = tree.get("input", {})
    inputs = inputs if isinstance(inputs, dict) else {"0": inputs}
    return Record(
        name=name,
        direction=parse_record(name).direction,
        input_args=_list(inputs),
        input_kwargs={key: _nest(value) for key, value in inputs.items() if _position(key) is None},
        output=_list(tree["output"] if isinstance(tree.get("output"), dict) else {"0": tree.get("output")}),
    )


def _nest(value: Any) -> Nest:
    if not isinstance(value, dict):
        return value
    if all(_position(key) is not None for key in value):
        return _list(value)
    return {key: _nest(entry) for key, entry in value.items()}


def _list(entries: Tree) -> list[Nest]:
    """Return the arguments by position; those that ptdbg left out are None."""
    arguments = {place: _nest(value) for key, value in entries.items() if (place := _position(key)) is not None}
    if max(arguments, default=-1) + 1 > len(arguments) + _MOST_LEFT_OUT:
        raise ValueError(f"it has an argument {max(arguments)} but only {len(arguments)} arguments")
    return [arguments.get(index) for index in range(max(arguments, default=-1) + 1)]


def _position(key: str) -> int | None:
    return int(key) if re.fullmatch(_POSITION, key) else None
