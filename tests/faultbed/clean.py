"""Clean pairs: two runs of one training that differ in how it was computed and not in what; nobody is to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.faultbed import models, ranks
from tests.faultbed.answer import answer
from tests.faultbed.cases import TASKS, run_path
from tests.faultbed.plant import ExactKernels
from tests.faultbed.program import Program, Subject, make_program, record
from torchparity.comparing.judging.verdict import Kind

Prepare = Callable[[Program], Program]
_AGREE = frozenset({Kind.AGREE.value})
_DTYPES = _AGREE | {Kind.DTYPE.value}
_BATCHES = _AGREE | {Kind.BATCH.value}


@dataclass(frozen=True)
class CleanPair:
    """A subject prepared in two ways, and the kinds of answers that blame nobody."""

    subject: str
    variant: str
    candidate: Prepare
    baseline: Prepare
    accepted: frozenset[str] = _AGREE
    ranks: str = ""  # the strategy where two processes train

    @property
    def is_slow(self) -> bool:
        return bool(self.ranks) or self.variant in ("threads", "compiled")

    @property
    def name(self) -> str:
        return f"clean/{self.subject}/{self.variant}"


def _same(program: Program) -> Program:
    return program


def _without_dropout(program: Program) -> Program:
    """Set every rate to zero: other shapes and dtypes draw other random numbers."""
    for module in program.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for rate in ("dropout", "attention_dropout", "dropout_prob", "activation_dropout"):
            if isinstance(getattr(module, rate, None), float):
                setattr(module, rate, 0.0)
    return program


def _built_with(**changes: Any) -> Prepare:
    def prepare(program: Program) -> Program:
        torch.manual_seed(0)
        program.model = models.BUILDERS[program.subject.name](**changes).train()
        return _without_dropout(program)

    return prepare


def _wide(program: Program) -> Program:
    """Repeat the data until kernels share their work among threads."""
    program.batches = [
        {name: value.repeat(64, *[1] * (value.dim() - 1)) for name, value in batch.items()} for batch in program.batches
    ]
    return program


def _two_threads(program: Program) -> Program:
    program.around = lambda: _threads(2)
    return _wide(program)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


def _micro_batches(program: Program) -> Program:
    program.micro_batches = 2
    return _without_dropout(program)


def _in_dtype(dtype: torch.dtype) -> Prepare:
    def prepare(program: Program) -> Program:
        program.model.to(dtype)
        program.batches = [
            {name: value.to(dtype) if value.is_floating_point() else value for name, value in batch.items()}
            for batch in program.batches
        ]
        return _without_dropout(program)

    return prepare


def _autocast(program: Program) -> Program:
    program.context = lambda: torch.autocast("cpu", dtype=torch.bfloat16)
    return _without_dropout(program)


def _without_mkldnn(program: Program) -> Program:
    program.around = lambda: torch.backends.mkldnn.flags(enabled=False)
    return program


def _deterministic(program: Program) -> Program:
    program.around = _deterministic_on
    return program


@contextmanager
def _deterministic_on() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def _channels_last(program: Program) -> Program:
    program.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    program.batches = [
        {
            name: value.to(memory_format=torch.channels_last) if value.dim() == 4 else value
            for name, value in each.items()
        }
        for each in program.batches
    ]
    return program


def _foreach(program: Program) -> Program:
    program.settings["foreach"] = True
    return program


def _checkpointing(program: Program) -> Program:
    enable: Any = program.model.gradient_checkpointing_enable
    enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return program


def _exact(program: Program) -> Program:
    program.below.append(ExactKernels())
    return program


def _compiled(program: Program) -> Program:
    program.model.compile(backend="aot_eager")
    return program


def _shuffled(program: Program) -> Program:
    """Draw the batches from a shuffling loader inside of the recording."""
    whole = {name: torch.cat([batch[name] for batch in program.batches]) for name in program.batches[0]}
    rows = [{name: value[index] for name, value in whole.items()} for index in range(len(whole["labels"]))]
    loader: Any = torch.utils.data.DataLoader(rows, batch_size=len(rows) // 2, shuffle=True)
    program.batches = loader
    return program


def _pairs(
    subjects: str, variant: str, candidate: Prepare, baseline: Prepare = _same, accepted: frozenset[str] = _AGREE
) -> list[CleanPair]:
    return [CleanPair(subject, variant, candidate, baseline, accepted) for subject in subjects.split()]


PAIRS = [
    *_pairs(" ".join(models.SUBJECTS), "again", _same),
    *_pairs("cnn lstm", "shuffled", _shuffled, _shuffled),
    *_pairs("llama gpt2 cnn vit", "threads", _two_threads, _wide),
    *_pairs("llama gpt2 vit lstm", "micro-batches", _micro_batches, _without_dropout, _BATCHES),
    *_pairs("llama gpt2 bert vit", "bfloat16", _in_dtype(torch.bfloat16), _without_dropout, _DTYPES),
    *_pairs("llama bert cnn t5", "autocast", _autocast, _without_dropout, _DTYPES),
    *_pairs("llama gpt2 cnn lstm", "float64", _in_dtype(torch.float64), _without_dropout, _DTYPES),
    *_pairs("cnn lstm bert", "mkldnn off", _without_mkldnn),
    *_pairs("mixtral cnn", "deterministic", _deterministic),
    *_pairs(
        "llama gpt2 bert vit qwen2",
        "eager attention",
        _built_with(attn_implementation="eager"),
        _built_with(attn_implementation="sdpa"),
    ),
    *_pairs("cnn vit", "channels last", _channels_last),
    *_pairs("gpt2 lstm vit", "foreach", _foreach),
    *_pairs("llama gpt2 vit", "checkpointing", _checkpointing),
    *_pairs("llama gpt2 cnn vit mixtral", "exact kernels", _exact),
    *_pairs("cnn llama", "compiled", _compiled),
    CleanPair("llama", "ddp again", _same, _same, ranks="ddp"),
    CleanPair("llama", "fsdp2 again", _same, _same, ranks="fsdp2"),
]
BY_NAME = {pair.name: pair for pair in PAIRS}


def run_pair(folder: Path, name: str) -> list[dict[str, Any]]:
    """Record both sides in both tasks and compare them; return a line for each task."""
    pair = BY_NAME[name]
    for task in TASKS:
        for side, prepare in (("candidate", pair.candidate), ("baseline", pair.baseline)):
            path = run_path(folder, f"{name}/{side}", task)
            subject: Subject = models.SUBJECTS[pair.subject]
            if pair.ranks:
                ranks.record_on_ranks(subject, path, task, pair.ranks)
            else:
                record(prepare(make_program(subject)), path, task)
    lines = [
        {
            "id": f"{name}/{task}",
            "model": pair.subject,
            "clean": pair.variant,
            "task": task,
            "accepted": sorted(pair.accepted),
        }
        for task in TASKS
    ]
    return [compare_pair_again(folder, line) for line in lines]


def compare_pair_again(folder: Path, line: dict[str, Any]) -> dict[str, Any]:
    """Return a line with what comparing its recorded runs says now."""
    candidate, baseline = (
        run_path(folder, f"clean/{line['model']}/{line['clean']}/{side}", line["task"])
        for side in ("candidate", "baseline")
    )
    told = answer(candidate, baseline, frozenset(), frozenset(line["accepted"]), 0)
    kept = {key: told[key] for key in ("said_kind", "said_record", "said_step", "headline", "rule_record")}
    return line | kept | {"blamed": not told["kind_right"]}
