# ruff: noqa: RUF001 - the documents have Chinese punctuation
"""Finds every interface that the documents of the earlier tools print: functions, flags, fields, files, columns, words.

The documents are Markdown with a little HTML, mostly in Chinese: a run of ASCII letters is a name, and the Chinese word
beside it (参数 parameter, 字段 field, 列 column, 情况 case, 函数 function) tells what kind of name.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

KINDS = ("function", "command", "flag", "field", "value", "file", "column", "word", "message", "name")
_BLOCK = re.compile(r"^[ \t]*```(\w*)[ \t]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"[A-Za-z0-9_{}*./\-]*[A-Za-z0-9_}*]\.(?:pkl|csv|json|xlsx|txt|yaml|py|whl|md|png)(?![A-Za-z0-9])")
_FLAG = re.compile(r"(?<![A-Za-z0-9_\-{}./*>)%])--?[a-z][a-zA-Z_\-]*[a-z]|(?<![A-Za-z0-9_\-{}./*>)%])-[a-z](?![a-z])")
_UNDERSCORED = re.compile(r"(?<![-A-Za-z0-9_.])[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+(?![A-Za-z0-9_])")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CHINESE = re.compile(r"[\u3000-\u9fff]")
_IN_PROSE: tuple[tuple[str, str], ...] = (
    ("function", r"([A-Za-z_][A-Za-z0-9_]*)\s*函数"),
    ("function", r"([A-Za-z_]+\.[a-z]+_[a-z]+)来"),
    ("field", r"(?<![-A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*)\s*参数"),
    ("field", r"参数为\s*([A-Za-z_][A-Za-z0-9_]*)"),
    ("field", r'"([A-Za-z_]+)"(?:字段|：)'),
    ("field", r"([a-z][a-z_]*)(?:配置|类型)为"),
    ("field", r"([a-z_]+)=(?:True|False|\"cpu\")"),
    ("field", r"“([a-z_]+)”字段"),
    ("value", r"(?:配置为|类型为)[\"*]*([A-Za-z0-9_]+)"),
    ("value", r"配置为[A-Za-z0-9]+或([A-Za-z0-9]+)"),
    ("column", r"([A-Z][A-Za-z_]*(?: [A-Za-z_]+)*)\s*(?:列|字段)"),
    ("column", r"(rank\*)列"),
    ("column", r"^([A-Z][A-Za-z0-9 ]+): \$"),
    ("column", r"（(Result|Err_[Mm]essage|Accuracy Reached or Not)）"),
    ("word", r"^\d+\. ([A-Z][A-Za-z/]*) 情况"),
    ("word", r"标记为 `(\w+)`"),
    ("word", r"结果为 `([a-z ]+)`"),
    ("word", r"Consistent 为 (\w+)"),
    ("message", r'^\d+\. "([^"]+)"：'),
    ("message", r"<td>\[msprobe\] ([^<]+?)\"?</td>"),
    ("message", r"^\s*(Exception: .*)$"),
    ("message", r"报错：ERROR:(.*)$"),
)
_TRANSLATED = (
    ("word", "非正常溢出", "abnormal"),
    ("word", "正常溢出", "normal"),
    ("word", "红色", "red"),
    ("word", "黄色", "yellow"),
)


class Printed(NamedTuple):
    """One name that a document prints."""

    kind: str
    name: str


def printed(folder: Path) -> dict[Printed, list[int]]:
    """Return every interface of the documents in a folder, with the numbers of the documents that print it."""
    found: dict[Printed, list[int]] = {}
    for document in sorted(folder.glob("*.txt")):
        names = [each for each in _of_document(document.read_text(encoding="utf-8")) if each.name]
        for each in _once(names):
            found.setdefault(each, []).append(int(document.name[:3]))
    known = {each.name for each in found if each.kind != "name"}
    return {each: numbers for each, numbers in found.items() if each.kind != "name" or each.name not in known}


def _once(names: list[Printed]) -> list[Printed]:
    return sorted(set(names), key=lambda each: (KINDS.index(each.kind), each.name))


def _of_document(text: str) -> Iterator[Printed]:
    for language, code in _BLOCK.findall(text):
        yield from _of_block(language.lower(), textwrap.dedent(code.expandtabs(4)))
    prose = re.sub(r"\]\([^)]*\)", "]", _BLOCK.sub("", text))
    for kind, pattern in _IN_PROSE:
        yield from (Printed(kind, name.strip()) for name in re.findall(pattern, prose, re.MULTILINE))
    yield from (Printed(kind, word) for kind, chinese, word in _TRANSLATED if chinese in prose)
    yield from _of_tables(prose)
    for name in re.findall(r"`([^`\n]+)`", prose):
        if _IDENTIFIER.fullmatch(name):
            yield Printed("name", name)
    for words in re.findall(r"比对指标值为(.*?)，表示", prose):
        yield from (Printed("word", word) for word in words.split("，"))
    whole = re.sub(r"https?://\S+", "", text)
    yield from (Printed("flag", flag) for flag in _FLAG.findall(re.sub(r"\$[^$]*\$", "", whole)) if flag != "-inf")
    yield from (Printed("file", name.removeprefix("./")) for name in _FILE.findall(whole) if "*" not in name[1:])
    yield from (Printed("name", name) for name in _UNDERSCORED.findall(_FILE.sub("", re.sub(r"\$[^$]*\$", "", whole))))


def _of_block(language: str, code: str) -> Iterator[Printed]:
    if language == "python":
        yield from _of_python(code)
    elif language in ("bash", "shell"):
        yield from (Printed("command", name) for line in code.splitlines() if (name := _command(line)))
        yield from (Printed("message", line) for line in code.splitlines() if line.startswith("Exception: "))
    elif language in ("json", "yaml"):
        yield from (Printed("field", name) for name in re.findall(r'"(\w+)"\s*:', code))
        yield from (Printed("value", name) for name in re.findall(r':\s*"(\w+)"', code))
    elif language == "":
        yield from (Printed("field", name) for name in re.findall(r"^(\w+):$", code, re.MULTILINE))
        yield from (Printed("column", name) for name in re.findall(r"^- ([A-Z]\w+(?: \w+)?)$", code, re.MULTILINE))


def _command(line: str) -> str:
    """Return the program of a line and its subcommand or script."""
    words = [word for word in line.split() if not word.startswith("-") and word != "pytorch"]
    if not words or not re.fullmatch(r"[a-z][a-z0-9]*", words[0]):
        return ""
    return " ".join(words[:2]) if words[0] in ("msprobe", "python", "pip3", "git") else words[0]


def _of_python(code: str) -> Iterator[Printed]:
    """The functions that a sample calls, but those of torch and Python, and the keywords that the tool's take."""
    tree = ast.parse(code)
    foreign: set[str] = {"super"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or node.names[0].name
            is_tools = module.split(".")[0] in ("torch_npu", "api_accuracy_checker", "msprobe", "ptdbg_ascend")
            if is_tools:
                yield Printed("name", module)
            else:
                foreign |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            foreign.add(node.name)
        elif isinstance(node, ast.Dict):
            yield from (Printed("field", str(key.value)) for key in node.keys if isinstance(key, ast.Constant))
    own = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := _called(node.func, foreign)) and name not in own:
            yield Printed("function", name)
            yield from (Printed("field", keyword.arg) for keyword in node.keywords if keyword.arg)
            is_prototype = not name.islower() or all(isinstance(each, ast.Name) for each in node.args)
            if is_prototype and len(node.args) > 1:
                yield from (Printed("field", each.id) for each in node.args if isinstance(each, ast.Name))


def _called(function: ast.expr, foreign: set[str]) -> str:
    root = function
    while isinstance(root, ast.Attribute | ast.Call):
        root = root.value if isinstance(root, ast.Attribute) else root.func
    if not isinstance(root, ast.Name) or root.id in foreign or root.id == "self":
        return ""
    return function.attr if isinstance(function, ast.Attribute) else root.id


def _of_tables(prose: str) -> Iterator[Printed]:
    rows = [line.strip() for line in prose.splitlines()]
    head: list[str] = []
    for row, after in zip(rows, [*rows[1:], ""], strict=True):
        cells = [cell.strip() for cell in row.strip("|").split("|")] if row.startswith("|") else []
        if not cells:
            head = []
        elif re.fullmatch(r"[|:\- ]+", after):
            head = cells
            yield from (Printed("column", name) for cell in cells for name in _headings(cell))
        elif head and not re.fullmatch(r"[|:\- ]+", row):
            yield from _of_row(head[0], cells)
    for first in re.findall(r"<tr><td[^>]*>([a-z_]+)</td>", prose):
        yield Printed("field", first)
    yield from (Printed("value", name) for name in re.findall(r'<td>"([a-z_]+)"', prose))


def _headings(cell: str) -> list[str]:
    """Return the columns of results that a heading stands for; the documents' own headings are Chinese."""
    if cell.endswith("统计量 (max, min, mean, L2 norm)"):
        return [f"{side} {each}" for side in ("NPU", "Bench") for each in ("max", "min", "mean", "l2norm")]
    name = re.sub(r"\s*\(.*\)$", "", cell)
    return [name] if name and not _CHINESE.search(name) else []


def _of_row(title: str, cells: list[str]) -> Iterator[Printed]:
    if title == "字段":
        yield Printed("column", cells[0])
    elif title.startswith("参数名"):
        for name in re.split(r"\s*或\s*", cells[0]):
            if _IDENTIFIER.fullmatch(name):
                yield Printed("field", name)
        for listed in re.findall(r"比对指标：([^。<]*)", cells[1]):
            yield from (Printed("column", name.strip()) for name in listed.split("、") if not _CHINESE.search(name))
    elif title.startswith("输出dtype"):
        yield from (Printed("value", cell) for cell in cells[:1] if not _CHINESE.search(cell))
