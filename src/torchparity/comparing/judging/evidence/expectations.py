"""The rounding that is expected of a record's outputs, from what the record received."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.evidence.operator_families import Family, families_of
from torchparity.comparing.judging.evidence.operators import operator_of
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.precision.comparisons import call_of, received_of, returned_of
from torchparity.comparing.precision.expectation import expected
from torchparity.comparing.precision.facts import Expectation
from torchparity.naming import OPTIMIZER, forward_of

_ANYTHING = Expectation(math.inf, math.inf, 0.0, "")
_TF32_KEYS: dict[Family, str] = {
    "matmul": "tf32.matmul",
    "attention": "tf32.matmul",
    "convolution": "tf32.conv",
    "recurrent": "tf32.rnn",
}


class Expectations:
    """Asks the model of rounding about the records of one part; `environments` are those of both runs."""

    def __init__(
        self,
        records: Mapping[str, JudgedRecord],
        parents: Mapping[str, str | None],
        environments: Sequence[Mapping[str, str]],
    ) -> None:
        self._records, self._parents, self._environments = records, parents, environments
        self._has_tf32 = any(
            environment.get(key) == "on" for environment in environments for key in _TF32_KEYS.values()
        )
        self._autocast = _autocast_dtype(environments)

    def of(self, record: JudgedRecord, output: ItemComparison) -> Expectation:
        """Return what rounding explains of an output's deviation."""
        returned = returned_of(output)
        if returned is None:
            return _ANYTHING
        received = [part for entry in record.received if (part := received_of(entry)) is not None]
        forward = self._records.get(forward_of(record.name)) if record.direction == "backward" else None
        call = call_of(
            record.items,
            forward.items if forward is not None else (),
            in_optimizer=self._parents.get(record.name) == OPTIMIZER,
            uses_tf32=self._uses_tf32(record.name),
        )
        cast_to = self._autocast
        return expected(
            returned, received, call if cast_to is None else msgspec.structs.replace(call, computes_in=cast_to)
        )

    def has_other_tf32(self, record: str) -> bool:
        """Tell whether one run alone computes a record with TF32."""
        return len(set(self._tf32_of_runs(record))) > 1

    def _uses_tf32(self, record: str) -> bool:
        return any(self._tf32_of_runs(record))

    def _tf32_of_runs(self, record: str) -> list[bool]:
        """Return for each run whether it computes a record with TF32."""
        if not self._has_tf32:
            return []
        keys = [_TF32_KEYS[family] for family in families_of(operator_of(record)) if family in _TF32_KEYS]
        return [any(environment.get(key) == "on" for key in keys) for environment in self._environments]


def _autocast_dtype(environments: Sequence[Mapping[str, str]]) -> str | None:
    """Return the dtype that autocast computes in, in one of the runs alone: "cuda bfloat16" is torch.bfloat16."""
    said = {environment.get("autocast", "off") for environment in environments}
    last_words = [words.split()[-1] for words in said if words.split()]
    dtypes = [word for word in last_words if word.startswith(("float", "bfloat"))]
    return f"torch.{dtypes[0]}" if len(said) > 1 and dtypes else None
