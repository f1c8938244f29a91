"""Pairs the calls of optimizers by the parameters that they step, which two runs may take in another order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torchparity.comparing.pairing.records import How, RecordPair, look_of, matching_calls
from torchparity.naming import OPTIMIZER
from torchparity.records import Record, TensorLeaf, ValueLeaf
from torchparity.storage import RunPart

Parameters = frozenset[str]


def paired_by_parameter(candidate: RunPart, baseline: RunPart, pairs: list[RecordPair]) -> list[RecordPair]:
    """Return the pairs with those of optimizers put right; the same where each steps what its partner steps."""
    if not candidate.tells_origins or not baseline.tells_origins:
        return pairs
    mine, other = _own_parameters(candidate), _own_parameters(baseline)
    if list(mine.values()) == list(other.values()) or not set(mine.values()) & set(other.values()):
        return pairs
    left, right = _calls(candidate, mine), _calls(baseline, other)
    partners: dict[str, str] = {}
    for parameters, names in left.items():
        pair_up = _in_order if parameters else _alike
        partners |= pair_up(candidate, names, baseline, right.get(parameters, []))
    return _with_partners(pairs, partners, _optimizer_calls(candidate), _optimizer_calls(baseline))


def _optimizer_calls(part: RunPart) -> dict[str, Record]:
    return {
        name: part.records[name]
        for name, parent in part.construct.items()
        if parent == OPTIMIZER and name in part.records
    }


def _own_parameters(part: RunPart) -> dict[str, Parameters]:
    """Return the parameters that calls of an optimizer received themselves, of those that did."""
    told: dict[object, list[str]] = {}  # a tensor says in a number who made it, and few numbers are parameters
    found: dict[str, Parameters] = {}
    for name, record in _optimizer_calls(part).items():
        parameters: list[str] = []
        for leaf in _received(record):
            if leaf.origin not in told:
                origins = part.origins_of(leaf)
                told[leaf.origin] = [origin.name for origin in origins if origin.kind == "parameter" and origin.name]
            parameters += told[leaf.origin]
        if parameters:
            found[name] = frozenset(parameters)
    return found


def _received(record: Record) -> Iterable[TensorLeaf]:
    """Yield the tensors that a call received, those in lists included, without the names that items have."""
    for nest in (*record.input_args, *record.input_kwargs.values()):
        for leaf in nest if isinstance(nest, list) else (nest,):
            if isinstance(leaf, TensorLeaf):
                yield leaf


def _calls(part: RunPart, own: Mapping[str, Parameters]) -> dict[Parameters, list[str]]:
    """Return the calls for each parameter, in their order; those that belong to none are under the empty set.

    A call belongs to a parameter that it received, or whose calls it gave its result to or received one from. Calls on
    lists belong to all that they received.
    """
    calls = _optimizer_calls(part)
    single = {name for name in calls if not takes_lists(name)}
    roots = {name: name for name in single}

    def root(name: str) -> str:
        while roots[name] != name:
            roots[name] = name = roots[roots[name]]
        return name

    for name in single:
        for maker in _makers(part, calls[name]):
            if maker in single:
                roots[root(name)] = root(maker)
    shared: dict[str, Parameters] = {}
    for name in single & own.keys():
        shared[root(name)] = shared.get(root(name), frozenset()) | own[name]
    found: dict[Parameters, list[str]] = {}
    for name in calls:
        parameters = shared.get(root(name)) if name in single else own.get(name)
        found.setdefault(parameters or frozenset(), []).append(name)
    return found


def takes_lists(name: str) -> bool:
    """Tell whether a record is of a function that does the same for each tensor of lists."""
    return "._foreach_" in name or "._fused_" in name


def _makers(part: RunPart, record: Record) -> Iterable[str]:
    return (origin.name for leaf in _tensors(record) for origin in part.origins_of(leaf) if origin.kind == "record")


def _tensors(record: Record) -> Iterable[TensorLeaf]:
    return (item.leaf for item in record.items() if isinstance(item.leaf, TensorLeaf))


def _in_order(candidate: RunPart, names: Sequence[str], baseline: RunPart, others: Sequence[str]) -> dict[str, str]:
    left, right = ([part.records[name] for name in chosen] for part, chosen in ((candidate, names), (baseline, others)))
    return {names[i]: others[j] for i, j in matching_calls(left, right)}


def _alike(candidate: RunPart, names: Sequence[str], baseline: RunPart, others: Sequence[str]) -> dict[str, str]:
    """Pair calls that may stand in any order, such as those that count steps: equal arguments first, then the rest."""
    partners: dict[str, str] = {}
    for with_values in (True, False):
        free: dict[object, list[str]] = {}
        taken = set(partners.values())
        for name in others:
            if name not in taken:
                free.setdefault(_look(baseline.records[name], with_values=with_values), []).append(name)
        for name in names:
            fitting = free.get(_look(candidate.records[name], with_values=with_values))
            if name not in partners and fitting:
                partners[name] = fitting.pop(0)
    return partners


def _look(record: Record, *, with_values: bool) -> object:
    values = [item.leaf.value for item in record.items() if isinstance(item.leaf, ValueLeaf)]
    return look_of(record), repr(values) if with_values else ""


def _with_partners(
    pairs: Sequence[RecordPair], partners: Mapping[str, str], mine: Mapping[str, Record], other: Mapping[str, Record]
) -> list[RecordPair]:
    """Return the pairs with these partners of optimizers' calls; the calls without one are alone."""
    taken = set(partners.values())
    changed: list[RecordPair] = []
    alone = [RecordPair(None, record, "unmatched") for name, record in other.items() if name not in taken]
    for pair in pairs:
        if pair.candidate is None:
            if pair.baseline is not None and pair.baseline.name not in other:
                changed.append(pair)
        elif pair.candidate.name not in mine:
            changed.append(pair)
        elif (partner := partners.get(pair.candidate.name)) is None:
            changed.append(RecordPair(pair.candidate, None, "unmatched"))
        else:
            how: How = "name" if partner == pair.candidate.name else "realigned"
            changed.append(RecordPair(pair.candidate, other[partner], how))
    return changed + alone
