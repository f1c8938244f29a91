"""The fixture `parity`, which pytest finds by itself: it runs two models in lockstep and fails with the headline.

    def test_fused_attention(parity):
        parity(fused, plain, inputs, backward=True)

pytest loads this file at every start, so it imports torchparity and torch only when a test uses the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from torch import nn
    from typing_extensions import Unpack

    from torchparity.in_lockstep import Inputs, LockstepFields, LockstepResult


class Parity:
    """Fails a test whose two models part."""

    def __call__(
        self, model_a: nn.Module, model_b: nn.Module, inputs: Inputs, **options: Unpack[LockstepFields]
    ) -> LockstepResult:
        """Run `torchparity.lockstep`; fail with its headline where the models part, else return its result."""
        __tracebackhide__ = True
        from torchparity.in_lockstep import lockstep

        result = lockstep(model_a, model_b, inputs, **options)
        if not result.agrees:
            pytest.fail(result.headline, pytrace=False)
        return result


@pytest.fixture
def parity() -> Parity:
    """Run two models in lockstep, and fail where they part: `parity(candidate, baseline, inputs)`."""
    return Parity()
