"""The kernels are compiled for every GPU that Triton can compile for, also without one: the assembler comes with it."""

from __future__ import annotations

import pytest

triton = pytest.importorskip("triton", reason="no Triton")

pytestmark = pytest.mark.gpu  # where Triton is


def assembled(kind: int, size: int, capability: tuple[int, int]) -> bytes:
    """Return the kernel's program for a GPU; raise where the assembler does not know an instruction."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from torchparity.kernels.triton_launch import chunks
    from torchparity.kernels.triton_launch.measure import measure_few

    in_pairs = kind in chunks.PAIRS_SINCE and capability >= chunks.PAIRS_SINCE[kind]
    constants = {"KIND": kind, "ALIGNED": True, "CHECKSUM": False, "SIZE": size, "IN_PAIRS": in_pairs}
    names = measure_few.arg_names
    signature = {name: "constexpr" if name in constants else "i64" for name in names}
    source = ASTSource(measure_few, signature, {(names.index(name),): value for name, value in constants.items()})
    major, minor = capability
    target = GPUTarget("cuda", 10 * major + minor, 32)
    program: bytes = triton.compile(source, target=target, options={"num_warps": chunks.WARPS}).asm["cubin"]
    return program


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 9), (9, 0)], ids=["T4", "A100", "L4", "H100"])
@pytest.mark.parametrize("kind", ["FLOAT16", "BFLOAT16"])
def test_halves_are_measured_with_instructions_that_the_device_has(kind, capability):
    from torchparity.kernels.triton_launch import chunks

    assert assembled(getattr(chunks, kind), 2, capability)
