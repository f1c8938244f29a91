"""Operators by the way in which they round and pass errors on."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from torchparity.spellings import canonical_operator

Family = Literal[
    "selecting", "stretching", "indexing", "casting", "overwriting", "choosing", "switching", "scaling", "adding",
    "averaging", "multiplying", "dividing", "fused product", "fused quotient", "activation", "exponential", "logarithm",
    "power", "wave", "product", "convolution", "transposed convolution", "added product", "sum", "mean", "norm",
    "variance", "running sum", "accumulating", "transform", "normalization", "softmax", "log softmax", "loss",
    "distance", "attention", "creating", "unknown",
]  # fmt: skip

_NAMES: dict[Family, str] = {
    # Elements are copied or moved; none is counted twice.
    "selecting": """
        view reshape viewas reshapeas flatten unflatten squeeze unsqueeze transpose t permute swapaxes swapdims movedim
        moveaxis mt h mh adjoint contiguous clone detach alias cat concat concatenate stack hstack vstack dstack
        columnstack chunk split splitwithsizes tensorsplit unbind narrow select slice diagonal diag tril triu flip roll
        rot90 neg positive real imag viewasreal viewascomplex conj conjphysical resolveconj where maskedfill
        maskedselect maskedscatter setitem pad constantpadnd relu relu6 hardtanh threshold clamp clip clampmin clampmax
        abs absolute max min maximum minimum amax amin fmax fmin aminmax sort topk kthvalue msort cummax cummin unfold
        pixelshuffle pixelunshuffle channelshuffle identity allgather allgatherintotensor broadcast scatter gatherobject
        send recv isend irecv alltoall alltoallsingle pin pinmemory cpu cuda item tolist numpy requiresgrad asstrided
        slicescatter selectscatter diagonalscatter indexcopy indexput indexfill putalongdim leakyrelu prelu
        maxpool1d maxpool2d maxpool3d adaptivemaxpool1d adaptivemaxpool2d adaptivemaxpool3d copysign
        atleast1d atleast2d atleast3d ravel narrowcopy unsafechunk unsafesplit frac sign
    """,
    "stretching": "expand expandas broadcastto broadcasttensors repeat repeatinterleave tile meshgrid unfoldcopy",
    "indexing": "getitem index indexselect embedding gather takealongdim take gridsample",
    "casting": """
        to type typeas float double half bfloat16 tocopy totensor autocast convertelementtype quantize dequantize
        astensor tensor fakequantize
    """,
    "overwriting": "copy set data fill zero",
    "choosing": """
        argmax argmin argsort eq ne lt le gt ge isclose isnan isinf isfinite logicaland logicalor logicalnot logicalxor
        bool int long short byte round floor ceil trunc fix sgn nonzero bucketize searchsorted multinomial histc
        bincount unique uniqueconsecutive allclose equal any all signbit floordivide remainder fmod heaviside
    """,
    "switching": "dropout dropout1d dropout2d dropout3d alphadropout featuredropout featurealphadropout rrelu",
    "adding": "add sub rsub subtract addn accumulategrad",
    "averaging": "lerp",
    "multiplying": "mul multiply square float_power ldexp",
    "dividing": "div divide truedivide rdiv rtruediv reciprocal",
    "fused product": "addcmul",
    "fused quotient": "addcdiv",
    "activation": """
        gelu silu tanh sigmoid elu celu selu softplus mish hardswish hardsigmoid logsigmoid tanhshrink softsign
        softshrink hardshrink glu erf atan asinh expm1 log1p swish
    """,
    "exponential": "exp exp2 sinh cosh",
    "logarithm": "log log2 log10",
    "power": "pow sqrt rsqrt",
    "wave": "sin cos sinc polar angle",
    "product": "linear matmul mm bmm mv dot vdot inner outer ger einsum tensordot kron chainmatmul bilinear",
    "convolution": "conv1d conv2d conv3d convolution conv",
    "transposed convolution": "convtranspose1d convtranspose2d convtranspose3d",
    "added product": "addmm baddbmm addbmm addmv addr",
    "sum": "sum nansum allreduce reduce reducescatter reducescattertensor trace",
    "mean": """
        mean nanmean avgpool1d avgpool2d avgpool3d adaptiveavgpool1d adaptiveavgpool2d adaptiveavgpool3d
        interpolate upsample upsamplenearest upsamplebilinear
    """,
    "norm": "norm vectornorm matrixnorm linalgnorm lppool1d lppool2d dist",
    "variance": "var std varmean stdmean",
    "running sum": "cumsum cumulativetrapezoid logcumsumexp",
    "accumulating": "indexadd scatteradd scatterreduce indexreduce embeddingbag",
    "transform": "fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn hfft ihfft stft istft",
    "normalization": """
        layernorm rmsnorm batchnorm batchnorm1d batchnorm2d batchnorm3d groupnorm instancenorm instancenorm1d
        instancenorm2d instancenorm3d syncbatchnorm localresponsenorm
    """,
    "softmax": "softmax softmin gumbelsoftmax",
    "log softmax": "logsoftmax logsumexp",
    "loss": """
        crossentropy nllloss crossentropyloss binarycrossentropy binarycrossentropywithlogits kldiv bcewithlogitsloss
        bceloss kldivloss
    """,
    "distance": "mseloss l1loss smoothl1loss huberloss",
    "attention": "scaleddotproductattention flashattention efficientattention flexattention",
    "creating": """
        zeros ones full empty zeroslike oneslike fulllike emptylike newzeros newones newfull newempty newtensor eye
        arange linspace logspace rand randn randint randperm randlike randnlike randintlike normal uniform bernoulli
        exponential random manualseed emptystrided onehot
    """,
}  # fmt: skip
_FAMILY: dict[str, Family] = {name: family for family, names in _NAMES.items() for name in names.split()}
# Rules of these return what they received, so that equal inputs give equal bits on every device.
EXACT: frozenset[Family] = frozenset(
    {"selecting", "stretching", "indexing", "casting", "overwriting", "choosing", "creating"}
)
# TF32 rounds the factors of these.
PRODUCTS: frozenset[Family] = frozenset(
    {"product", "convolution", "transposed convolution", "added product", "attention", "unknown"}
)


@lru_cache(maxsize=4096)
def family_of(operator: str) -> Family:
    """Return the family of an operator: `_foreach_mul_`, `linalg.vector_norm` and `LayerNorm` are found too."""
    return _FAMILY.get(stem_of(operator), "unknown")


@lru_cache(maxsize=4096)
def stem_of(operator: str) -> str:
    """Return an operator's name without namespace, marks of lists and of writing in place, and underscores."""
    name = canonical_operator(operator.rpartition(".")[2].removeprefix("_foreach_"))
    return name.replace("_", "").lower()


@lru_cache(maxsize=4096)
def is_foreach(operator: str) -> bool:
    """Tell whether an operator does the same for each tensor of lists."""
    return operator.startswith(("_foreach_", "_fused_", "_amp_foreach_"))
