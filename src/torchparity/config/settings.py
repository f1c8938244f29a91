"""The settings as types: fields, defaults and, below each field, the text that docs/config.md shows for it."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

Task = Literal["statistics", "tensor", "structure", "overflow_check", "free_benchmark", "acc_check", "run_ut"]
RecordingTask = Literal["statistics", "tensor", "structure", "overflow_check", "free_benchmark"]
FuzzDevice = Literal["npu", "cpu", "cuda", "device"]
PertMode = Literal["improve_precision", "bit_noise", "add_noise", "change_value", "no_change", "to_cpu"]
HandlerType = Literal["check", "fix"]
FuzzStage = Literal["forward", "backward"]
Level = Literal["L0", "L1", "mix", "L2", "debug"]
RecordingLevel = Literal["L0", "L1", "mix", "debug"]
DataMode = Literal["all", "forward", "backward", "input", "output"]
SummaryMode = Literal["statistics", "md5", "xor"]
TensorFormatName = Literal["safetensors", "pt"]
Precision = Literal["high", "low"]
RiskLevel = Literal["ALL", "CORE", "FOCUS"]
Indices = Annotated[list[int], "a list of numbers from 0 to 1000000, or text such as '3' or '4-6'"]
DataModes = list[DataMode]  # named here: the blocks have a field called `list`
Names = Annotated[list[str], "a list of texts"]

Size = Annotated[int | None, "a whole number of bytes from 1, or text such as '20GB' or '1.5GiB'"]

LARGEST_INDEX = 1_000_000


class StatisticsTask(msgspec.Struct, frozen=True, kw_only=True):
    """The `statistics` block: which calls to record, and what to compute of their tensors."""

    scope: Names = []
    """Record from the first to the second of two record names; at level mix one module name is enough."""
    list: Names = []
    """Record only calls with one of these texts in their name; a whole record name means that call alone,
    the whole name of a module's call that module and everything inside it."""
    tensor_list: Names = []
    """Of records with one of these texts in their name, keep the values too."""
    data_mode: DataModes = msgspec.field(default_factory=lambda: ["all"])
    """The directions (`forward`, `backward`) and sides (`input`, `output`) to record."""
    summary_mode: SummaryMode = "statistics"
    """`statistics`: max, min, mean, norm. `md5`: those and a checksum, which is a CRC-32 (the name is msprobe's).
    `xor`: a 64-bit xor checksum alone."""


class TensorTask(msgspec.Struct, frozen=True, kw_only=True):
    """The `tensor` block: which calls to record with the values of their tensors."""

    scope: Names = []
    """As in the `statistics` block."""
    list: Names = []
    """As in the `statistics` block."""
    data_mode: DataModes = msgspec.field(default_factory=lambda: ["all"])
    """As in the `statistics` block."""
    summary_mode: SummaryMode = "statistics"
    """As in the `statistics` block."""
    tensor_format: TensorFormatName = "safetensors"
    """`safetensors`: shards in which equal tensors are stored once. `pt`: one file per tensor, for msprobe."""
    bench_path: str | None = None
    """An earlier run with checksums: keep values only of records that differ from it. Needs `summary_mode` md5."""
    diff_nums: int = 1
    """Stop after so many records that differ from `bench_path`; -1 is no limit."""


class OverflowTask(msgspec.Struct, frozen=True, kw_only=True):
    """The `overflow_check` block: when to stop looking for calls that overflow."""

    overflow_nums: int = 1
    """Stop looking after so many calls that overflow; -1 is no limit. Training goes on."""
    stop_training: bool = False
    """Stop the training too, at the last of `overflow_nums` calls, with ptdbg_ascend's ValueError."""


class FreeBenchmarkTask(msgspec.Struct, frozen=True, kw_only=True):
    """The `free_benchmark` block: how to perturb an API and judge the result."""

    scope: Names = []
    """Perturb only these calls: whole names, no range. Not together with `list`."""
    list: Names = []
    """Perturb only calls with one of these texts in their name; without both, every call."""
    fuzz_device: FuzzDevice = "npu"
    """`cpu` with `pert_mode` to_cpu alone; the others all mean the device that the tensors are on."""
    pert_mode: PertMode = "improve_precision"
    """The change to the inputs ([perturbations](free-benchmark.md#perturbations))."""
    handler_type: HandlerType = "check"
    """`check`: list results that move too far. `fix`: put the perturbed result in place of the API's own."""
    fuzz_level: Literal["L1"] = "L1"
    """The level of what is perturbed: APIs."""
    fuzz_stage: FuzzStage = "forward"
    """`forward`: perturb results. `backward`: perturb gradients; needs `list`, whose APIs' inputs are kept."""
    if_preheat: bool = False
    """Learn the usual deviation of each API in the first steps, and widen its thresholds to that."""
    preheat_step: int = 15
    """The number of steps to learn from."""
    max_sample: int = 20
    """Learn from at most so many calls of an API."""
    raise_float32: bool = False
    """With `improve_precision`, raise float32 too, to float64. Not in msprobe."""
    max_calls_per_api: int = -1
    """Perturb at most so many calls of an API in a step; -1 is no limit. Not in msprobe."""
    significance: int = 0
    """Instead of a check, run each call so many times with random last bits, and tell how many bits of its result
    are significant ([significance](free-benchmark.md#significance)); 0 is off. Not in msprobe."""


class CheckTask(msgspec.Struct, frozen=True, kw_only=True):
    """The `acc_check` (older: `run_ut`) block."""

    white_list: Names = []
    black_list: Names = []
    error_data_path: str = "./"


class CaptureConfig(msgspec.Struct, frozen=True, kw_only=True):
    """config.json: what to record, when, where, and a block for each task."""

    task: Annotated[Task, RecordingTask] = "statistics"
    """The facts to keep of each tensor: `statistics`, or values too (`tensor`); `structure` keeps only the calls,
    `overflow_check` only those that overflow, with values. `free_benchmark` records nothing: it perturbs calls."""
    dump_path: str = "./dump_path"
    """The folder of the run."""
    rank: Indices = []
    """The ranks to record; empty means all."""
    step: Indices = []
    """The steps to record; empty means all."""
    level: Annotated[Level, RecordingLevel] = "L1"
    """`L0`: modules. `L1`: APIs. `mix`: both. `debug`: only what `save` is called with."""
    async_dump: bool = False
    """Accepted as msprobe has it, without effect: files are always written by another thread."""
    extra_info: bool = True
    """Write the call stacks (stack.json) and the enclosing modules (construct.json)."""
    precision: Precision = "low"
    """`high`: statistics are summed in float64. `low`: in float32 within a block (a few thousand numbers), in
    float64 across blocks; faster."""
    risk_level: RiskLevel = "FOCUS"
    """`FOCUS`: every API but those that only make a view. `ALL`: those too. `CORE`: only those at numerical risk."""
    dump_enable: bool | None = None
    """A switch that is read from config.json again at every `start`; null means that there is none."""
    enable_dataloader: bool = False
    """Every batch of a DataLoader begins a step; after the last step of `step` the training ends."""
    views: bool = False
    """Record APIs that only make a view, such as `transpose`. Not in msprobe."""
    all_frames: bool = False
    """Keep torch's own frames in the call stacks. Not in msprobe."""
    overwrite: bool = False
    """Replace a run that is already in `dump_path`. Not in msprobe."""
    max_bytes: Size = None
    """Keep no values of further tensors when a rank's run has this size; statistics go on. Not in msprobe."""
    statistics: StatisticsTask = StatisticsTask()
    """The settings of task `statistics`, below."""
    tensor: TensorTask = TensorTask()
    """The settings of task `tensor`, below."""
    overflow_check: OverflowTask = OverflowTask()
    """The settings of task `overflow_check`, below."""
    free_benchmark: FreeBenchmarkTask = FreeBenchmarkTask()
    """The settings of task `free_benchmark`, below."""
    acc_check: CheckTask = CheckTask()
    run_ut: CheckTask = CheckTask()


class CompareConfig(msgspec.Struct, frozen=True, kw_only=True):
    """compare.json: the two runs to compare, as msprobe names them."""

    npu_path: str
    """The candidate: the dump.json or the folder of the run under suspicion."""
    bench_path: str
    """The baseline: the dump.json or the folder of the run that is trusted."""
    stack_path: str | None = None
    """The candidate's stack.json, where it is not beside its dump.json."""
    is_print_compare_log: bool = True
    """Print a line for every item that is compared."""


BLOCKS: dict[str, type[msgspec.Struct]] = {
    field.name: field.type
    for field in msgspec.structs.fields(CaptureConfig)
    if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)
}


def offered(fields: tuple[str, ...]) -> list[str]:
    """Return the fields to offer to a user: all but the blocks of tasks that cannot be recorded yet."""
    return [name for name in fields if name not in BLOCKS or name in get_args(RecordingTask)]
