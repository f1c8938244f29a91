"""The judge: from compared parts to one verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from torchparity.comparing.judging.agreement import Searches, total_agreement
from torchparity.comparing.judging.batch import batch_sizes, batch_verdict
from torchparity.comparing.judging.evidence.coverage import Coverage
from torchparity.comparing.judging.evidence.cut_off import CutOff, first_cut_off
from torchparity.comparing.judging.evidence.damage import Damage, damage_of
from torchparity.comparing.judging.evidence.dtypes import dtype_words
from torchparity.comparing.judging.evidence.environment import (
    EnvironmentDifference,
    bearing_on,
    devices_said,
    differences,
)
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.evidence.operators import communicates, operator_of
from torchparity.comparing.judging.evidence.tf32 import EXPLANATION, looks_like_tf32, narrow_format, of_tf32
from torchparity.comparing.judging.limits import Limits
from torchparity.comparing.judging.part import ComparedPart
from torchparity.comparing.judging.repeated_facts import told_once
from torchparity.comparing.judging.search.rank_search import RankSearch
from torchparity.comparing.judging.search.ranks import Placed, may_be_reduced, ordered
from torchparity.comparing.judging.verdict import Finding, Kind, Verdict
from torchparity.comparing.judging.wording.advice import DAMAGED, advice_on
from torchparity.comparing.judging.wording.sentences import agreement_sentence, finding_sentence, largest_deviation
from torchparity.comparing.measuring.deviation import has_other_shape
from torchparity.naming import OPTIMIZER, forward_of
from torchparity.text import counted

_MOST_OTHERS = 5
_MOST_REMARKS = 3
# These stand for themselves: they are never the consequence of an earlier finding.
_INDEPENDENT = (
    *(Kind.ARGUMENT, Kind.WEIGHTS, Kind.DATA, Kind.OPERATOR, Kind.RANDOM, Kind.NONFINITE, Kind.MISSING_GRADIENT),
)
NO_LIMITS = Limits()


def judge(parts: Sequence[ComparedPart], coverage: Coverage, limits: Limits = NO_LIMITS) -> Verdict:
    """Return the verdict on two runs, with what to do about it; a remark names their devices."""
    cut_off, damage = first_cut_off(parts), damage_of(parts)
    verdict = _judged(parts, coverage, limits, has_all=cut_off is None and damage is None)
    if damage is not None:
        verdict = _of_damage(verdict, damage, parts, coverage)
    elif cut_off is not None:
        verdict = _of_cut_off(verdict, cut_off, coverage, has_ranks=len({part.rank for part in parts}) > 1)
    first_step = min((part.step for part in parts), default=0)
    has_other_optimizer, is_foreach_once = coverage.optimizer_alone > 0, coverage.is_foreach_once
    advice = advice_on(verdict, first_step, has_other_optimizer=has_other_optimizer, is_foreach_once=is_foreach_once)
    if damage is not None and verdict.first is None:
        advice = DAMAGED
    return _with_devices(msgspec.structs.replace(verdict, advice=advice), parts)


def _of_cut_off(verdict: Verdict, cut_off: CutOff, coverage: Coverage, *, has_ranks: bool) -> Verdict:
    """Return a verdict that says first which of the runs was cut off."""
    said = cut_off.said(has_ranks=has_ranks)
    if verdict.kind is not Kind.AGREE:
        joint = ". " if verdict.first is None else "; "
        return msgspec.structs.replace(verdict, sentence=f"{said}{joint}{verdict.sentence}")
    last = f", the last {cut_off.last}," if cut_off.last else ""  # none of that step may have come to its end
    records = coverage.paired - cut_off.unfinished
    agree = f"the {counted(records, 'record')} up to there{last} {'agrees' if records == 1 else 'agree'}"
    return msgspec.structs.replace(verdict, kind=Kind.CUT_OFF, sentence=f"{said}; {agree}.")


def _of_damage(verdict: Verdict, damage: Damage, parts: Sequence[ComparedPart], coverage: Coverage) -> Verdict:
    """Return a verdict that says first which files are damaged, and blames nobody for what is lost with them."""
    findings = [finding for finding in (verdict.first, *verdict.also) if finding is not None]
    shown = [finding for finding in findings if damage.is_shown_all_the_same(finding)]
    if shown:
        sentence = verdict.sentence if shown[0] is verdict.first else _sentence(shown[0], parts)
        told = msgspec.structs.replace(verdict, kind=shown[0].kind, first=shown[0], also=tuple(shown[1:]))
        return msgspec.structs.replace(told, sentence=f"{damage.said()}; {sentence}")
    if findings:
        difference = (
            f"{_place(findings[0], parts)}{findings[0].record} shows a difference, which what is lost may explain"
        )
    elif verdict.kind is Kind.AGREE:
        records = counted(coverage.paired, "record")
        could_be = "read of both runs" if any(part.has_lost_records for part in damage.parts) else "paired"
        difference = f"the {records} that could be {could_be} {'agrees' if coverage.paired == 1 else 'agree'}"
    else:
        difference = verdict.sentence.rstrip(".")
    kind = Kind.UNKNOWN if findings or verdict.kind is Kind.UNKNOWN else Kind.CUT_OFF
    return msgspec.structs.replace(
        verdict, kind=kind, sentence=f"{damage.said()}; {difference}.", first=None, also=(), agreement=None
    )


def _with_devices(verdict: Verdict, parts: Sequence[ComparedPart]) -> Verdict:
    sides = (parts[0].candidate, parts[0].baseline) if parts else ()
    devices = devices_said(*(side.info.environment for side in sides)) if sides else ""
    if not devices or devices in verdict.remarks:
        return verdict
    return msgspec.structs.replace(verdict, remarks=(*verdict.remarks, devices))


def _judged(parts: Sequence[ComparedPart], coverage: Coverage, limits: Limits, *, has_all: bool) -> Verdict:
    if why := coverage.why_not():
        return Verdict(kind=Kind.UNKNOWN, sentence=f"The runs cannot be compared: {why}.")
    searches: dict[int, RankSearch] = {}
    for part in sorted(parts, key=lambda entry: (entry.step, entry.rank)):
        searches.setdefault(part.rank, RankSearch(limits)).add_step(part)
    for search in searches.values():
        search.finish()
    placed = ordered(searches)
    first = _first(placed, searches)
    changes = differences(parts[0].candidate.info.environment, parts[0].baseline.info.environment)
    if first is None:
        unexplained = [search.unexplained for search in searches.values() if search.unexplained is not None]
        if unexplained:
            return _cannot_tell(min(unexplained, key=lambda entry: (entry[1].step, entry[0]))[1], parts, coverage)
        return _agreement(parts, coverage, searches, [entry.finding for entry in placed], changes, limits)
    if coverage.is_of_another_model and has_all:
        return _another_model(coverage, first)
    sizes = batch_sizes(searches) if _is_made_by_other_sizes(first, searches) else None
    if sizes is not None:
        return batch_verdict(sizes, searches, coverage)
    others = [
        entry.finding for entry in placed if _is_told(entry.finding, first) and not may_be_reduced(entry, first, placed)
    ]
    first, *others = told_once([_explained(first, searches, changes), *others])
    quiet = [finding for finding in others if not finding.is_shown]
    return Verdict(
        kind=first.kind,
        sentence=_sentence(first, parts),
        first=first,
        also=tuple([finding for finding in others if finding.is_shown][:_MOST_OTHERS]),
        remarks=(
            *_quiet_sentences(quiet, parts)[:_MOST_REMARKS],
            *_remarks(first, searches, changes),
            *coverage.unread(),
        ),
        not_compared=coverage.left_out(),
    )


def _is_made_by_other_sizes(first: Finding, searches: Searches) -> bool:
    """Tell whether the first finding is one that other batch sizes make: at data, or at a record of other shapes."""
    if first.kind in (Kind.DATA, Kind.SHAPE, Kind.CALL):
        return True
    context = searches[first.rank].contexts[first.step]
    record = context.by_name.get(first.record)
    return record is not None and any(has_other_shape(entry.pair) for entry in record.items)


def _explained(first: Finding, searches: Searches, changes: Sequence[EnvironmentDifference]) -> Finding:
    """Return the finding with what the environments, or the other records, say about its cause."""
    bearing = bearing_on(changes, operator_of(first.record))
    telling = next((entry.sentence for entry in bearing if _is_telling(entry, first.kind)), "")
    if telling:
        return msgspec.structs.replace(first, explanation=telling, is_set_otherwise=True)
    is_tf32 = looks_like_tf32(first, _records(searches))
    return msgspec.structs.replace(first, explanation=EXPLANATION) if is_tf32 else first


def _records(searches: Searches) -> Iterator[JudgedRecord]:
    for search in searches.values():
        for context in search.contexts.values():
            yield from context.records


def _is_telling(difference: EnvironmentDifference, kind: Kind) -> bool:
    """Tell whether a difference of the environments is worth a place in the headline."""
    if kind is Kind.RANDOM:
        return difference.key.startswith(("seed", "dropout"))
    of_a_product = ("tf32.", "hf32.", "npu.", "autocast", "cublas.", "attention.")
    return kind is Kind.OPERATOR and difference.key.startswith(of_a_product)


def _remarks(first: Finding, searches: Searches, changes: Sequence[EnvironmentDifference]) -> list[str]:
    dtypes = _dtype_words(searches)
    bearing = bearing_on(changes, operator_of(first.record))
    remarks = [f"the runs compute in different dtypes: {dtypes}"] if dtypes else []
    return remarks + [entry.sentence for entry in bearing if entry.sentence != first.explanation][:_MOST_REMARKS]


def _dtype_words(searches: Searches) -> str:
    return dtype_words(context.dtypes for search in searches.values() for context in search.contexts.values())


def _sentence(finding: Finding, parts: Sequence[ComparedPart]) -> str:
    by_checksum = any(part.mode == "checksums" for part in parts)
    return finding_sentence(finding, by_checksum=by_checksum, where=_place(finding, parts))


def _place(finding: Finding, parts: Sequence[ComparedPart]) -> str:
    """Return the step and rank of a finding, where there are several."""
    return f"step {finding.step}, rank {finding.rank}: " if len(parts) > 1 else ""


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
        if finding.kind is Kind.ARGUMENT:
            return msgspec.structs.replace(cause, is_shown=True, explanation=f"and so {finding.record} differs")
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
    if effect.kind is Kind.ARGUMENT and argument.module == effect.module == OPTIMIZER:
        return True  # one setting is passed to several calls, of which not all show it
    return any(source.endswith(argument.record) for source in effect.sources)


def _is_told(finding: Finding, first: Finding) -> bool:
    """Tell whether a finding is worth a word beside the first: an argument always is."""
    if (finding.step, finding.rank, finding.record) == (first.step, first.rank, first.record):
        return False
    return not finding.is_shown or _stands_alone(finding, first)


def _stands_alone(finding: Finding, first: Finding) -> bool:
    if not finding.is_shown or not finding.is_certain or finding.kind not in _INDEPENDENT:
        return False
    if finding.kind in (Kind.WEIGHTS, Kind.DATA) and finding.step > first.step:
        return False  # what the step before left behind
    if finding.kind is Kind.MISSING_GRADIENT and forward_of(finding.record) == first.record:
        return False  # what the call received otherwise asks for a gradient otherwise
    if communicates(finding.record):
        return False  # another rank may have sent what differs
    return finding.kind is not Kind.OPERATOR or finding.input_deviation == 0


def _cannot_tell(finding: Finding, parts: Sequence[ComparedPart], coverage: Coverage) -> Verdict:
    """Return the verdict where something is off by more than rounding and nobody can be blamed for it."""
    return Verdict(
        kind=Kind.UNKNOWN,
        sentence=_sentence(finding, parts),
        first=finding,
        remarks=tuple(coverage.unread()),
        not_compared=coverage.left_out(),
    )


def _another_model(coverage: Coverage, first: Finding) -> Verdict:
    records = coverage.paired + coverage.unpaired_records
    sentence = f"{coverage.paired:,} of {records:,} records pair: these look like different models."
    return Verdict(kind=Kind.MODEL, sentence=sentence, first=first)


def _agreement(
    parts: Sequence[ComparedPart],
    coverage: Coverage,
    searches: Searches,
    quiet: Sequence[Finding],
    changes: Sequence[EnvironmentDifference],
    limits: Limits,
) -> Verdict:
    if not any(search.has_looked for search in searches.values()):
        return _nothing_behind(limits)
    agreement, dtypes, left_out = total_agreement(searches, parts, limits), _dtype_words(searches), coverage.ending()
    kind, sentence = Kind.AGREE, agreement_sentence(agreement, left_out, is_all_read=coverage.is_all_read)
    largest, apart = largest_deviation(agreement), agreement.apart_from
    differs = bool(agreement.item or agreement.remainder_item)
    if dtypes:
        all_within = f"all within what that explains{apart}; {largest}"
        all_within = all_within if differs else f"and every value is equal{apart}"
        kind, sentence = Kind.DTYPE, f"The runs compute in different dtypes, {dtypes}: {all_within}{left_out}."
    elif differs and (switches := of_tf32(changes)):
        name = narrow_format(switches)
        said = f"{name} is on in one run alone" if len(switches) > 1 else switches[0].sentence
        kind, sentence = Kind.DTYPE, f"The runs agree within what {name} explains ({said}){apart}: {largest}{left_out}."
    is_identical = agreement.is_identical and coverage.is_all_read
    return Verdict(
        kind=kind,
        sentence=sentence,
        agreement=msgspec.structs.replace(agreement, is_identical=is_identical),
        remarks=(*_quiet_sentences(told_once(quiet), parts), *_other_choices(searches)),
        not_compared=coverage.left_out(),
    )


def _other_choices(searches: Searches) -> list[str]:
    ranks = "rank {}, " if len(searches) > 1 else ""
    said = [ranks.format(rank) + line for rank, search in searches.items() for line in search.choices.sentences()]
    return said[:_MOST_REMARKS]


def _quiet_sentences(findings: Sequence[Finding], parts: Sequence[ComparedPart]) -> list[str]:
    """Return a sentence about each argument whose effect is too small to be the answer."""
    return [_sentence(finding, parts).replace("First difference: ", "", 1) for finding in findings]


def _nothing_behind(limits: Limits) -> Verdict:
    sentence = f"The runs cannot be compared: --after {limits.after} leaves no record to compare."
    return Verdict(kind=Kind.UNKNOWN, sentence=sentence)
