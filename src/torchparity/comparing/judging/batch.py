"""Runs with batches of another size: what does not depend on it is still compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from torchparity.comparing.judging.evidence.coverage import Coverage
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, are_tensors
from torchparity.comparing.judging.figures import FEWEST_RECORDS_OF_A_BATCH, GAIN_OF_OTHER_BATCHES
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.search.rank_search import RankSearch
from torchparity.comparing.judging.verdict import Agreement, Finding, Kind, Verdict
from torchparity.comparing.judging.wording.sentences import amount_text, off_text
from torchparity.comparing.measuring.deviation import has_other_shape
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.rounding import tolerance
from torchparity.naming import OPTIMIZER, family_of
from torchparity.records import TensorLeaf
from torchparity.text import counted


def batch_sizes(searches: Mapping[int, RankSearch]) -> tuple[int, int] | None:
    """Return the first dimensions of the two runs' activations where they differ in nothing else."""
    sizes: Counter[tuple[int, int]] = Counter()
    for search in searches.values():
        for context in search.contexts.values():
            for record in context.records:
                if context.part.parents.get(record.name) == OPTIMIZER or "_foreach_" in record.name:
                    continue  # lists of another length show tensors of other parameters
                if _has_other_weights(record):
                    return None  # another model
                sizes.update(set(_other_first_dimensions(record)))
    if not sizes:
        return None
    (pair, count), *_ = sizes.most_common(1)
    return pair if count >= FEWEST_RECORDS_OF_A_BATCH else None


def batch_verdict(sizes: tuple[int, int], searches: Mapping[int, RankSearch], coverage: Coverage) -> Verdict:
    """Return the verdict on runs with other batch sizes: gradients of parameters and the optimizer are compared."""
    ending, left_out = coverage.ending(), coverage.left_out()
    independent = [
        (context, record, entry)
        for search in searches.values()
        for context in search.contexts.values()
        for record, entry in _independent_items(context)
    ]
    records = len({id(record) for _, record, _ in independent})
    said = f"The candidate has batches of {sizes[0]} where the baseline has {sizes[1]}"
    wrong = [found for found in independent if _is_wrong(found[2])]
    if wrong:
        context, record, entry = wrong[0]
        finding = context.finding(Kind.BATCH, record, entry, expected=GAIN_OF_OTHER_BATCHES * tolerance(entry.pair))
        off = off_text(finding.deviation, finding.beyond_numbers)
        rest = f"and of what does not depend on it {_place(finding)} {off}"
        return Verdict(kind=Kind.BATCH, sentence=f"{said}, {rest}{ending}.", first=finding, not_compared=left_out)
    largest = max((entry.deviation or 0.0 for _, _, entry in independent), default=0.0)
    rest = f"what does not depend on it agrees ({counted(records, 'record')}, within {amount_text(largest)})"
    if not records:
        rest = "and nothing that does not depend on it was recorded"
    return Verdict(
        kind=Kind.BATCH,
        sentence=f"{said}; {rest}{ending}.",
        agreement=Agreement(is_identical=False, largest=largest),
        not_compared=left_out,
    )


def _has_other_weights(record: JudgedRecord) -> bool:
    """Tell whether a module has a parameter of another shape."""
    return any(entry.role == "parameters" and has_other_shape(entry.pair) for entry in record.items)


def _other_first_dimensions(record: JudgedRecord) -> Iterator[tuple[int, int]]:
    for entry in record.items if record.direction == "forward" else ():
        if not are_tensors(entry) or entry.candidate is None or entry.baseline is None:
            continue
        if entry.is_input and isinstance(entry.baseline.leaf, TensorLeaf) and entry.baseline.leaf.requires_grad:
            continue  # it may be a weight
        mine, other = entry.candidate.leaf, entry.baseline.leaf
        if not isinstance(mine, TensorLeaf) or not isinstance(other, TensorLeaf) or mine.shape == other.shape:
            continue
        if len(mine.shape) > 1 and mine.shape[1:] == other.shape[1:]:
            yield mine.shape[0], other.shape[0]


def _independent_items(context: PartContext) -> Iterator[tuple[JudgedRecord, ItemComparison]]:
    """Yield what the optimizer received and returned, and gradients of parameters that came once in both runs."""
    parts = (context.part.candidate, context.part.baseline)
    events = [Counter(family_of(name) for name in part.records if ".parameters_grad" in name) for part in parts]
    for record in context.records:
        is_gradient = record.direction == "parameters_grad"
        if (
            is_gradient
            and events[0][family_of(record.name)] != events[1][family_of(record.baseline_name or record.name)]
        ):
            continue
        if is_gradient or context.part.parents.get(record.name) == OPTIMIZER:
            yield from ((record, entry) for entry in record.items if are_tensors(entry))


def _is_wrong(entry: ItemComparison) -> bool:
    return entry.deviation is not None and entry.deviation > GAIN_OF_OTHER_BATCHES * tolerance(entry.pair)


def _place(finding: Finding) -> str:
    return f"{finding.record}.{finding.item}"
