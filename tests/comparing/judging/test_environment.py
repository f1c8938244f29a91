"""Differences of two environments in sentences, and those that bear on an operator."""

from __future__ import annotations

import pytest

from torchparity.comparing.judging.evidence.environment import bearing_on, devices_said, differences
from torchparity.comparing.judging.evidence.tf32 import narrow_format, of_tf32

CPU = {"torch": "2.13.0", "threads": "2", "autocast": "off", "deterministic": "off", "attention.flash": "on"}
H200 = {**CPU, "cuda": "NVIDIA H200", "tf32.matmul": "off", "tf32.conv": "on", "cudnn.benchmark": "off"}
LARGE = str(1 << 60)


def sentences(candidate, baseline):
    return [difference.sentence for difference in differences(candidate, baseline)]


@pytest.mark.parametrize(
    ("candidate", "baseline", "sentence"),
    [
        pytest.param(
            {**CPU, "torch": "2.12.0"}, CPU, "the candidate ran on torch 2.12.0, the baseline on 2.13.0", id="torch"
        ),
        pytest.param({**H200, "tf32.matmul": "on"}, H200, "TF32 is on for matmuls in the candidate alone", id="tf32"),
        pytest.param(H200, {**H200, "tf32.conv": "off"}, "TF32 is on for convolutions in the candidate alone"),
        pytest.param(
            CPU, {**CPU, "deterministic": "on"}, "deterministic algorithms are on in the baseline alone", id="strict"
        ),
        pytest.param(
            {**CPU, "deterministic": "warn only"},
            CPU,
            "deterministic algorithms are on in the candidate alone (they warn only)",
            id="warn-only",
        ),
        pytest.param(
            {**CPU, "attention.flash": "off"},
            CPU,
            "the attention backend flash is on in the baseline alone",
            id="attention",
        ),
        pytest.param(
            {**CPU, "autocast": "cpu bfloat16"}, CPU, "autocast (cpu bfloat16) is on in the candidate alone", id="cast"
        ),
        pytest.param(
            {**CPU, "autocast": "cuda bfloat16"},
            {**CPU, "autocast": "cuda float16"},
            "autocast is cuda bfloat16 in the candidate and cuda float16 in the baseline",
            id="other-autocast",
        ),
        pytest.param(
            {**CPU, "threads": "1"},
            CPU,
            "the number of threads is 1 in the candidate and 2 in the baseline",
            id="threads",
        ),
        pytest.param(
            {**CPU, "env.NVIDIA_TF32_OVERRIDE": "0"},
            CPU,
            "NVIDIA_TF32_OVERRIDE is 0 in the candidate and not set in the baseline",
            id="variable",
        ),
        pytest.param({**CPU, "dropout": "removed"}, CPU, "dropout was removed by seed_all in the candidate alone"),
        pytest.param(
            {**CPU, "seed": "1"}, {**CPU, "seed": "2"}, "the candidate's seed is 1, the baseline's 2", id="seeds"
        ),
        pytest.param({**CPU, "seed": LARGE}, {**CPU, "seed": "2"}, "the baseline alone set a seed (2)", id="one-seed"),
        pytest.param(
            {**CPU, "seed": LARGE}, {**CPU, "seed": LARGE[:-1]}, "neither run seems to have set a seed", id="no-seed"
        ),
    ],
)
def test_a_difference_is_a_sentence(candidate, baseline, sentence):
    assert sentences(candidate, baseline) == [sentence]


def test_a_device_without_tf32_counts_as_one_that_has_it_off():
    assert sentences(H200, CPU) == [
        "the candidate ran on an NVIDIA H200, the baseline on the CPU",
        "TF32 is on for convolutions in the candidate alone",
    ]


@pytest.mark.parametrize(
    ("candidate", "baseline"),
    [
        pytest.param(CPU, CPU, id="equal"),
        pytest.param(CPU, {}, id="a-run-that-tells-nothing"),
        pytest.param({**H200, "threads": "16"}, H200, id="threads-beside-an-accelerator"),
        pytest.param({**CPU, "attention.cudnn": "on"}, {**CPU, "attention.cudnn": "off"}, id="cudnn-without-cuda"),
        pytest.param({**CPU, "transformers": "5"}, CPU, id="a-library-that-one-program-imports"),
        pytest.param({**CPU, "mkldnn.matmul": "ieee"}, CPU, id="a-key-of-another-torch"),
    ],
)
def test_what_has_no_effect_is_no_difference(candidate, baseline):
    assert sentences(candidate, baseline) == []


@pytest.mark.parametrize(
    ("operator", "keys"),
    [
        pytest.param("linear", ["tf32.matmul", "autocast", "torch"], id="linear"),
        pytest.param("__matmul__", ["tf32.matmul", "autocast", "torch"], id="matmul"),
        pytest.param("scaled_dot_product_attention", ["tf32.matmul", "attention.flash", "seed", "autocast", "torch"]),
        pytest.param("conv2d", ["tf32.conv", "autocast", "cudnn.benchmark", "torch"], id="conv"),
        pytest.param("lstm", ["autocast", "cudnn.benchmark", "torch"], id="lstm"),
        pytest.param("dropout", ["seed", "autocast", "torch"], id="dropout"),
        pytest.param("gelu", ["autocast", "torch"], id="gelu"),
        pytest.param("Linear", ["tf32.matmul", "autocast", "torch"], id="module"),
        pytest.param(
            "DecoderLayer",
            ["tf32.matmul", "tf32.conv", "attention.flash", "seed", "autocast", "cudnn.benchmark", "torch"],
            id="anything-inside",
        ),
    ],
)
def test_differences_that_bear_on_an_operator_the_most_telling_first(operator, keys):
    baseline = {**H200, "seed": "1", "python": "3.11"}
    candidate = {
        "torch": "2.12.0",
        "python": "3.12",
        "cuda": "NVIDIA H200",
        "deterministic": "off",
        "threads": "2",
        "tf32.matmul": "on",
        "tf32.conv": "off",
        "cudnn.benchmark": "on",
        "autocast": "cuda float16",
        "seed": "2",
        "attention.flash": "off",
    }

    assert [found.key for found in bearing_on(differences(candidate, baseline), operator)] == keys


def test_threads_bear_on_sums_and_not_on_what_goes_element_by_element():
    found = differences({**CPU, "threads": "1"}, CPU)

    assert [len(bearing_on(found, operator)) for operator in ("sum", "layer_norm", "linear", "add", "relu")] == [
        *(1, 1, 1),
        *(0, 0),
    ]


@pytest.mark.parametrize(
    ("candidate", "baseline", "said"),
    [
        (H200, H200, ""),
        (CPU, CPU, ""),
        (H200, {}, ""),
        (H200, CPU, "the candidate ran on an NVIDIA H200, the baseline on the CPU"),
        ({**CPU, "npu": "simulated NPU (X)"}, {**CPU, "npu": "simulated NPU (X)"}, "both ran on a simulated NPU (X)"),
    ],
)
def test_devices_are_named_where_they_differ_or_are_simulated(candidate, baseline, said):
    assert devices_said(candidate, baseline) == said


@pytest.mark.parametrize(
    ("switches", "name"), [(["hf32.matmul", "hf32.conv"], "HF32"), (["tf32.matmul"], "TF32"), (["tf32.conv"], "TF32")]
)
def test_an_npu_s_format_has_a_name_of_its_own(switches, name):
    found = differences({**CPU, **dict.fromkeys(switches, "on")}, CPU)

    assert narrow_format(of_tf32(found)) == name
