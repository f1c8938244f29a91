"""Differences of the environments of two runs, and those that bear on an operator in which the runs part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from torchparity.comparing.judging.evidence.operator_families import Family, families_of

_VERSIONS = {
    "torch": "torch",
    "torch.cuda": "CUDA",
    "torch.hip": "ROCm",
    "cudnn.version": "cuDNN",
    "npu.cann": "CANN",
    "torch.blas": "BLAS",
    "torch.git": "torch's commit",
    "cuda.driver": "the driver",
    "python": "Python",
    **{name: name for name in ("numpy", "transformers", "accelerate", "deepspeed", "triton", "flash_attn")},
    "torch_npu": "torch_npu",
    "platform": "",
    "cpu": "",
    "cpu.capability": "kernels for",
}
_SWITCHES = {
    "tf32.matmul": "TF32 is {} for matmuls",
    "tf32.conv": "TF32 is {} for convolutions",
    "tf32.rnn": "TF32 is {} for recurrent layers",
    "hf32.matmul": "HF32 is {} for matmuls",
    "hf32.conv": "HF32 is {} for convolutions",
    "npu.bf16_accumulation": "bf16 accumulation is {} for matmuls",
    "npu.fp16_accumulation": "fp16 accumulation is {} for matmuls",
    "cublas.bf16_reduction": "the reduced precision of cuBLAS's bfloat16 sums is {}",
    "cublas.fp16_reduction": "the reduced precision of cuBLAS's float16 sums is {}",
    "cublas.fp16_accumulation": "the float16 accumulation of cuBLAS is {}",
    "cudnn": "cuDNN is {}",
    "cudnn.benchmark": "cuDNN's benchmark mode is {}",
    "cudnn.deterministic": "cuDNN's deterministic mode is {}",
    "mkldnn": "oneDNN is {}",
    "deterministic.fill": "the filling of uninitialised memory is {}",
    "attention.flash": "the attention backend flash is {}",
    "attention.mem_efficient": "the attention backend mem_efficient is {}",
    "attention.math": "the attention backend math is {}",
    "attention.cudnn": "the attention backend cudnn is {}",
}
_VALUES = {
    "default.dtype": "the default dtype",
    "default.device": "the default device",
    "grad_mode": "the grad mode",
    "matmul_precision": "the float32 matmul precision",
    "mkldnn.matmul": "oneDNN's precision of float32 matmuls",
    "mkldnn.conv": "oneDNN's precision of float32 convolutions",
    "threads": "the number of threads",
    "threads.interop": "the number of inter-operator threads",
    "world.size": "the world size",
    "world.backend": "the distributed backend",
    "cuda.capability": "the compute capability",
}
_OFF_WHERE_MISSING = ("tf32.", "hf32.", "cublas.fp16_accumulation", "npu.bf16_accumulation", "npu.fp16_accumulation")
_OF_TWO_CPUS = ("cpu", "threads", "torch.blas", "env.OMP_", "env.MKL_")
_OF_A_CPU = ("mkldnn", "env.ONEDNN_")
_OF_CUDA_ALONE = ("attention.mem_efficient", "attention.cudnn")
_CPU = "the CPU"
_ACCELERATORS = ("cuda", "npu", "xpu")
_SIMULATED = "simulated"  # how the name of such a device begins
_FIRST_UNLIKELY_SEED = 1 << 32  # torch draws 64 bits where nobody sets a seed; nobody sets so many

# The families that a key bears on, None for every operator; the most telling keys first.
_BEARING: tuple[tuple[str, frozenset[Family] | None], ...] = (
    ("tf32.matmul", frozenset({"matmul", "attention"})),
    ("tf32.conv", frozenset({"convolution"})),
    ("tf32.rnn", frozenset({"recurrent"})),
    ("hf32.matmul", frozenset({"matmul", "attention", "recurrent"})),
    ("hf32.conv", frozenset({"convolution"})),
    ("npu.bf16_accumulation", frozenset({"matmul", "attention", "convolution"})),
    ("npu.fp16_accumulation", frozenset({"matmul", "attention", "convolution"})),
    ("attention.", frozenset({"attention"})),
    ("seed", frozenset({"random"})),
    ("dropout", frozenset({"random"})),
    ("deterministic.fill", frozenset({"uninitialised"})),
    ("world.", frozenset({"collective"})),
    ("autocast", None),
    ("default.dtype", None),
    ("cublas.", frozenset({"matmul", "attention"})),
    ("mkldnn.matmul", frozenset({"matmul", "attention", "recurrent"})),
    ("mkldnn.conv", frozenset({"convolution"})),
    ("mkldnn", frozenset({"matmul", "attention", "recurrent", "convolution"})),
    ("cudnn", frozenset({"convolution", "recurrent", "normalisation"})),
    ("device", None),
    ("deterministic", None),
    ("env.NCCL_ALGO", frozenset({"collective"})),
    ("env.HCCL_DETERMINISTIC", frozenset({"collective"})),
    ("env.LCCL_DETERMINISTIC", frozenset({"collective"})),
    ("env.CUBLAS_", frozenset({"matmul", "attention", "recurrent"})),
    ("env.ATB_", frozenset({"matmul", "attention"})),
    ("env.MKL_CBWR", frozenset({"matmul", "attention", "recurrent"})),
    ("env.ONEDNN_", frozenset({"matmul", "attention", "recurrent", "convolution"})),
    ("cpu", None),
    ("threads", frozenset({"matmul", "attention", "recurrent", "convolution", "normalisation", "reduction"})),
    ("torch", None),
    ("transformers", None),
    ("flash_attn", frozenset({"attention"})),
    ("cuda", None),
)


class EnvironmentDifference(msgspec.Struct, frozen=True):
    """A key under which two runs say different things; None where one does not say it. `sentence` has no full stop."""

    key: str
    candidate: str | None
    baseline: str | None
    sentence: str


def differences(candidate: Mapping[str, str], baseline: Mapping[str, str]) -> list[EnvironmentDifference]:
    """Return what differs and can have an effect on either run; nothing where a run does not tell its environment.

    Settings that count on no device in use are left out, as is what another difference says already.
    """
    if not candidate or not baseline:
        return []
    sides = (candidate, baseline)
    found = [_device_difference(*sides)]
    for key in {**candidate, **baseline}:
        mine, other = (_value(side, key) for side in sides)
        if mine != other and _is_worth_saying(key, candidate, baseline):
            found.append(EnvironmentDifference(key, mine, other, _sentence(key, mine, other)))
    return [difference for difference in found if difference is not None]


def bearing_on(found: Iterable[EnvironmentDifference], operator: str) -> list[EnvironmentDifference]:
    """Return those that may explain that an operator's output differs, the most telling first.

    `operator` is that of a record's name ("conv2d", "linalg.vector_norm") or a module's class.
    """
    families = families_of(operator)
    ranked = [(rank, difference) for difference in found if (rank := _rank(difference.key, families)) is not None]
    return [difference for _, difference in sorted(ranked, key=lambda entry: entry[0])]


def devices_said(candidate: Mapping[str, str], baseline: Mapping[str, str]) -> str:
    """Return the devices of the two runs in words: where they differ, or were simulated; else nothing."""
    if not candidate or not baseline:
        return ""
    difference = _device_difference(candidate, baseline)
    if difference is not None:
        return difference.sentence
    name = _device(candidate)
    return f"both ran on {_article(name)} {name}" if name.startswith(_SIMULATED) else ""


def _rank(key: str, families: frozenset[Family]) -> int | None:
    for rank, (prefix, bears_on) in enumerate(_BEARING):
        if key == prefix or key.startswith(prefix if prefix.endswith((".", "_")) else f"{prefix}."):
            return rank if bears_on is None or bears_on & families else None
    return None


def _device(environment: Mapping[str, str]) -> str:
    names = [environment[kind] for kind in _ACCELERATORS if kind in environment]
    return names[0] if names else _CPU


def _device_difference(candidate: Mapping[str, str], baseline: Mapping[str, str]) -> EnvironmentDifference | None:
    mine, other = _device(candidate), _device(baseline)
    if mine == other:
        return None
    articles = [name if name == _CPU else f"{_article(name)} {name}" for name in (mine, other)]
    sentence = f"the candidate ran on {articles[0]}, the baseline on {articles[1]}"
    return EnvironmentDifference("device", mine, other, sentence)


def _article(name: str) -> str:
    return "an" if name[:1].upper() in "AEINO" else "a"


def _value(environment: Mapping[str, str], key: str) -> str | None:
    if key.startswith(_OFF_WHERE_MISSING):
        return environment.get(key, "off")
    return environment.get(key)


def _is_worth_saying(key: str, candidate: Mapping[str, str], baseline: Mapping[str, str]) -> bool:
    if key in _ACCELERATORS or key == "torch.git":
        return key == "torch.git" and candidate.get("torch") == baseline.get("torch")
    if key == "matmul_precision":  # the precision of each library says where it has an effect
        return not any(other in side for side in (candidate, baseline) for other in ("tf32.matmul", "mkldnn.matmul"))
    if key.startswith("seed."):
        return key in candidate and key in baseline and candidate.get("seed") == baseline.get("seed")
    on_cpu = [_device(side) == _CPU for side in (candidate, baseline)]
    if (key.startswith(_OF_TWO_CPUS) and not all(on_cpu)) or (key.startswith(_OF_A_CPU) and not any(on_cpu)):
        return False
    if key in _OF_CUDA_ALONE and not any("cuda" in side for side in (candidate, baseline)):
        return False
    may_be_missing = key.startswith(("env.", *_OFF_WHERE_MISSING)) or key == "dropout"
    return may_be_missing or (key in candidate and key in baseline)


def _sentence(key: str, candidate: str | None, baseline: str | None) -> str:
    if key in _SWITCHES and {candidate, baseline} == {"on", "off"}:
        return f"{_SWITCHES[key].format('on')} in the {_side(candidate == 'on')} alone"
    if key == "deterministic":
        return _of_deterministic(candidate, baseline)
    if key == "autocast":
        return _of_autocast(candidate or "off", baseline or "off")
    if key.partition(".")[0] == "seed":
        return _of_seed(candidate, baseline)
    if key == "dropout":
        return f"dropout was removed by seed_all in the {_side(candidate is not None)} alone"
    if key in _VERSIONS:
        name = f"{_VERSIONS[key]} " if _VERSIONS[key] else ""
        return f"the candidate ran on {name}{candidate}, the baseline on {baseline}"
    name = key.removeprefix("env.") if key.startswith("env.") else _VALUES.get(key, key)
    return f"{name} is {candidate or 'not set'} in the candidate and {baseline or 'not set'} in the baseline"


def _side(is_candidate: bool) -> str:
    return "candidate" if is_candidate else "baseline"


def _of_deterministic(candidate: str | None, baseline: str | None) -> str:
    if "off" in (candidate, baseline):
        mode = {candidate, baseline} - {"off"}
        remark = " (they warn only)" if mode == {"warn only"} else ""
        return f"deterministic algorithms are on in the {_side(baseline == 'off')} alone{remark}"
    return f"deterministic algorithms warn only in the {_side(candidate == 'warn only')}"


def _of_autocast(candidate: str, baseline: str) -> str:
    if baseline == "off":
        return f"autocast ({candidate}) is on in the candidate alone"
    if candidate == "off":
        return f"autocast ({baseline}) is on in the baseline alone"
    return f"autocast is {candidate} in the candidate and {baseline} in the baseline"


def _of_seed(candidate: str | None, baseline: str | None) -> str:
    set_by_user = [_is_set(seed) for seed in (candidate, baseline)]
    if not any(set_by_user):
        return "neither run seems to have set a seed"
    if not all(set_by_user):
        return f"the {_side(set_by_user[0])} alone set a seed ({candidate if set_by_user[0] else baseline})"
    return f"the candidate's seed is {candidate}, the baseline's {baseline}"


def _is_set(seed: str | None) -> bool:
    return seed is not None and seed.isdecimal() and len(seed) < 20 and int(seed) < _FIRST_UNLIKELY_SEED
