"""Families of operators that a setting of torch has an effect on."""

from __future__ import annotations

import re
from typing import Literal, get_args

Family = Literal[
    "matmul",
    "convolution",
    "recurrent",
    "attention",
    "normalisation",
    "reduction",
    "random",
    "collective",
    "uninitialised",
]

# Compiled when they are first asked for, which most comparisons never do.
_NAMES: dict[Family, str] = {
    "matmul": (
        r"r?matmul|linear|bilinear|(?:add|badd|chain_|sparse_|_scaled_|_grouped_|_int_)?b?(?:mm|mv)|addr|addbmm|baddbmm"
        r"|einsum|tensordot|dot|vdot|inner|outer|multi_dot|matrix_power|cdist|kron"
    ),
    "convolution": r"(?:lazy)?conv(?:_tbc|_transpose|transpose|olution)?\d?d?|unfold|fold",
    "recurrent": r"(?:lstm|gru|rnn(?:_tanh|_relu)?)(?:_?cell)?",
    "attention": r".*attention.*|flash_attn.*|.*_attn_.*|npu_fusion_attention.*",
    "normalisation": r".*norm\d?d?",
    "reduction": (
        r"sum|mean|prod|std|var|std_mean|var_mean|.*norm|logsumexp|log_?softmax|softmax|cumsum|cumprod|nansum|nanmean"
        r"|.*loss|cross_entropy|binary_cross_entropy.*|.*pool\d?d?|interpolate|bincount|index_add_?|scatter.*|trace"
        r"|cosine_similarity|pairwise_distance|embedding_bag|trapezoid|histc"
    ),
    "random": (
        r".*dropout.*|rand.*|normal_?|bernoulli_?|multinomial|poisson|uniform_|random_|exponential_|geometric_"
        r"|cauchy_|log_normal_|rrelu_?|gumbel_softmax|.*attention.*|trunc_normal_|kaiming.*|xavier.*|binomial"
    ),
    "collective": r".*(?:all_?reduce|all_?gather|reduce_?scatter|broadcast|all_?to_?all|reduce_)\w*|reduce",
    "uninitialised": r"empty.*|new_empty.*|resize.*",
}


def families_of(operator: str) -> frozenset[Family]:
    """Return the families of an operator, by the last word of its name; of a module's class that tells nothing, all."""
    name = operator.rpartition(".")[2]
    plain = name.strip("_").lower() if name.startswith("__") else name.lower()
    families = {family for family, pattern in _NAMES.items() if re.fullmatch(pattern, plain)}
    if not families and name[:1].isupper():  # a module of the user's, with anything inside
        return frozenset(get_args(Family))
    return frozenset(families)
