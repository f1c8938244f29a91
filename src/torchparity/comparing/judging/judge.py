"""The judge: from compared parts to one verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchparity.comparing.judging.agreement import dtype_words, largest_deviation
from torchparity.comparing.judging.coverage import Coverage
from torchparity.comparing.judging.part import ComparedPart
from torchparity.comparing.judging.rank_search import RankSearch
from torchparity.comparing.judging.ranks import Placed, ordered
from torchparity.comparing.judging.search_options import SearchOptions
from torchparity.comparing.judging.sentences import agreement_sentence, amount_text, finding_sentence
from torchparity.comparing.judging.verdict import Finding, Kind, Verdict

_MOST_OTHERS = 5
# These stand for themselves: they are never the consequence of an earlier finding.
_INDEPENDENT = (
    *(Kind.ARGUMENT, Kind.WEIGHTS, Kind.DATA, Kind.OPERATOR, Kind.RANDOM, Kind.NONFINITE, Kind.MISSING_GRADIENT),
)
Searches = Mapping[int, RankSearch]  # by rank
_DEFAULTS = SearchOptions()


def judge(
    parts: Sequence[ComparedPart],
    coverage: Coverage,
    *,
    options: SearchOptions = _DEFAULTS,
    uses_tf32: bool = False,
) -> Verdict:
    """Return the verdict on two runs."""
    if why := coverage.why_not():
        return Verdict(kind=Kind.UNKNOWN, sentence=f"The runs cannot be compared: {why}.")
    searches: dict[int, RankSearch] = {}
    for part in sorted(parts, key=lambda entry: (entry.step, entry.rank)):
        searches.setdefault(part.rank, RankSearch(uses_tf32=uses_tf32)).add_step(part)
    placed = ordered(searches)
    first = _first(placed, searches)
    if first is None:
        return _agreement(parts, coverage, [entry.finding for entry in placed])
    if coverage.is_of_another_model:
        return _another_model(coverage, first)
    others = [entry.finding for entry in placed if _stands_alone(entry.finding, first)]
    dtypes = dtype_words(parts)
    return Verdict(
        kind=first.kind,
        sentence=_sentence(first, parts),
        first=first,
        also=tuple(others[:_MOST_OTHERS]),
        remarks=(f"the runs compute in different dtypes: {dtypes}",) if dtypes else (),
        not_compared=coverage.left_out(),
    )


def _sentence(finding: Finding, parts: Sequence[ComparedPart]) -> str:
    where = f"step {finding.step}, rank {finding.rank}: " if len(parts) > 1 else ""
    by_checksum = any(part.mode == "checksums" for part in parts)
    return finding_sentence(finding, by_checksum=by_checksum, where=where)


def _first(placed: Sequence[Placed], searches: Searches) -> Finding | None:
    """Return the earliest cause: an argument whose effect shows later, where there is one, else the first effect."""
    quiet: list[Finding] = []
    for entry in placed:
        finding = entry.finding
        if not finding.is_shown:
            quiet.append(finding)
            continue
        cause = next((argument for argument in quiet if _causes(argument, finding, searches)), None)
        if cause is None:
            return finding
        return msgspec.structs.replace(cause, is_shown=True, explanation="which shows in later records alone")
    return next((finding for finding in quiet if _has_effect(finding, searches)), None)


def _has_effect(finding: Finding, searches: Searches) -> bool:
    record = searches[finding.rank].contexts[finding.step].by_name[finding.record]
    return record.deviation != 0 or not record.returned


def _causes(argument: Finding, effect: Finding, searches: Searches) -> bool:
    """Tell whether an argument explains a later finding: its own result differs, or it made what differs there."""
    if argument.rank != effect.rank:
        return False
    if _has_effect(argument, searches) or not effect.is_certain:
        return True
    return any(source.endswith(argument.record) for source in effect.sources)


def _stands_alone(finding: Finding, first: Finding) -> bool:
    if (finding.step, finding.rank, finding.record) == (first.step, first.rank, first.record):
        return False
    if not finding.is_shown or not finding.is_certain or finding.kind not in _INDEPENDENT:
        return False
    return finding.kind is not Kind.OPERATOR or finding.input_deviation == 0


def _another_model(coverage: Coverage, first: Finding) -> Verdict:
    records = coverage.paired + coverage.unpaired_records
    sentence = f"{coverage.paired:,} of {records:,} records pair: these look like different models."
    return Verdict(kind=Kind.MODEL, sentence=sentence, first=first)


def _agreement(parts: Sequence[ComparedPart], coverage: Coverage, quiet: Sequence[Finding]) -> Verdict:
    agreement, dtypes, left_out = largest_deviation(parts), dtype_words(parts), coverage.left_out()
    kind, sentence = Kind.AGREE, agreement_sentence(agreement, left_out)
    if dtypes:
        largest = f"the largest deviation is {amount_text(agreement.largest)}, {agreement.item}" if agreement.item else ""
        all_within = f"all within what that explains; {largest}" if largest else "and every value is equal"
        kind, sentence = Kind.DTYPE, f"The runs compute in different dtypes, {dtypes}: {all_within}{left_out}."
    return Verdict(
        kind=kind,
        sentence=sentence,
        agreement=agreement,
        remarks=tuple(_sentence(finding, parts) for finding in quiet),
        not_compared=left_out,
    )
