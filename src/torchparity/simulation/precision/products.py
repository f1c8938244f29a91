"""The operators that sum products, and which of their arguments are the factors."""

from __future__ import annotations

FACTORS = {
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "addmm": ("mat1", "mat2"),
    "_addmm_activation": ("mat1", "mat2"),
    "baddbmm": ("batch1", "batch2"),
    "addbmm": ("batch1", "batch2"),
    "mv": ("self", "vec"),
    "addmv": ("mat", "vec"),
    "dot": ("self", "tensor"),
    "vdot": ("self", "other"),
    "convolution_overrideable": ("input", "weight"),
    "convolution_backward_overrideable": ("grad_output", "input", "weight"),
    "_scaled_dot_product_flash_attention_for_cpu": ("query", "key", "value"),
    "_scaled_dot_product_flash_attention_for_cpu_backward": ("grad_out", "query", "key", "value"),
}
# Where the summed axis of the two factors is, for matmuls.
SUMMED_AXES = dict.fromkeys(("mm", "bmm", "addmm", "baddbmm"), (-1, -2))
