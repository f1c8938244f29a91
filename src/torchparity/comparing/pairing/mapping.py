"""Pairs the items (`-dm`) and modules (`-cm`) that a user says belong together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from torchparity.comparing.pairing.items import ItemPair, Side
from torchparity.errors import ConfigError, nearest
from torchparity.naming import family_of, is_module_name
from torchparity.records import Record


def read_mapping(path: Path) -> dict[str, str]:
    """Return the pairs of a YAML mapping of names to names."""
    import yaml  # few comparisons have a mapping

    try:
        # Every scalar is a name here: the safe loader would make dates, numbers and booleans of some.
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except OSError as error:
        raise ConfigError(f"the mapping {path} cannot be read ({error.strerror}).") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"the mapping {path} is not valid YAML ({str(error).splitlines()[0]}).") from None
    if not isinstance(content, dict) or not all(isinstance(part, str) for pair in content.items() for part in pair):
        raise ConfigError(f"the mapping {path} must have one 'candidate name: baseline name' on each line.")
    return content


def mapped_pairs(
    groups: Iterable[list[ItemPair]], mapping: Mapping[str, str], baseline: Mapping[str, Record]
) -> list[list[ItemPair]]:
    """Return the pairs with the partners that the mapping names; what loses its partner is listed alone."""
    groups = list(groups)
    sides = {
        record.item_name(item.name): Side(record.item_name(item.name), item.leaf)
        for record in baseline.values()
        for item in record.items()
    }
    _refuse_unknown(mapping, {pair.candidate.name for pairs in groups for pair in pairs if pair.candidate}, sides)
    mapped = [_mapped(pairs, mapping, sides) for pairs in groups]
    taken = {pair.baseline.name for pairs in mapped for pair in pairs if pair.is_matched and pair.baseline is not None}
    return [[pair for pair in pairs if pair.candidate is not None or pair.name not in taken] for pairs in mapped]


def _mapped(pairs: Iterable[ItemPair], mapping: Mapping[str, str], sides: Mapping[str, Side]) -> list[ItemPair]:
    mapped, left_alone = [], []
    for pair in pairs:
        if pair.candidate is None or pair.candidate.name not in mapping:
            mapped.append(pair)
            continue
        if pair.baseline is not None:
            left_alone.append(ItemPair(pair.record, pair.role, pair.direction, None, pair.baseline))
        mapped.append(msgspec.structs.replace(pair, baseline=sides[mapping[pair.candidate.name]]))
    return mapped + left_alone


def _refuse_unknown(mapping: Mapping[str, str], candidate: set[str], baseline: Mapping[str, Side]) -> None:
    for name, partner in mapping.items():
        if name not in candidate:
            raise ConfigError(
                f"the mapping names {name!r}, which the candidate does not have.{nearest(name, candidate)}"
            )
        if partner not in baseline:
            raise ConfigError(
                f"the mapping names {partner!r}, which the baseline does not have.{nearest(partner, baseline)}"
            )


def renamed_modules(
    records: Mapping[str, Record], mapping: Mapping[str, str], candidate: Iterable[str] = ()
) -> Mapping[str, Record]:
    """Return the baseline's records by the candidate's names for its modules; an exact `path.Class` wins."""
    if not mapping:
        return records
    mine, other = _modules(candidate), _modules(records)
    _refuse_unknown_modules(mapping.keys(), mine, "candidate")
    _refuse_unknown_modules(mapping.values(), other, "baseline")
    _refuse_what_pairs_nothing(mapping, mine, other)
    back = {baseline: name for name, baseline in mapping.items()}
    names = {name: renamed(name, back) for name in records}
    given_away = {new for name, new in names.items() if new != name}
    by_new_name: dict[str, Record] = {}
    for name, record in records.items():
        new = names[name]
        while new in by_new_name or (new == name and new in given_away):
            new += "#"  # the name is that of another module now; this one has no partner
        by_new_name[new] = record
    return by_new_name


def renamed(name: str, back: Mapping[str, str]) -> str:
    """Return the candidate's name for a module record of the baseline."""
    if not is_module_name(name):
        return name
    for baseline, candidate in sorted(back.items(), key=lambda pair: -len(pair[0])):
        if baseline in name:
            return name.replace(baseline, candidate, 1)
    return name


def with_partner_names(records: Mapping[str, Record], partners: Mapping[str, str]) -> Mapping[str, Record]:
    """Return the baseline's records, those of modules that have a partner by the candidate's name of it."""
    if not partners:
        return records
    back = {baseline: name for name, baseline in partners.items()}
    names = {name: partner_name(name, back) for name in records}
    taken = {name for name, new in names.items() if name == new}  # a module of the partner's name that has none
    return {(name if names[name] in taken else names[name]): record for name, record in records.items()}


def partner_name(name: str, back: Mapping[str, str]) -> str:
    """Return the candidate's name for a record of the baseline, where its module has a partner."""
    family = family_of(name)
    return back[family] + name[len(family) :] if family in back else name


def _modules(records: Iterable[str]) -> dict[str, str]:
    """Return the modules of a run as `path.Class`, each with its path."""
    families = (family_of(name).removeprefix("Module.") for name in records if is_module_name(name))
    return {family: family.rpartition(".")[0] for family in families}


def _refuse_unknown_modules(wanted: Iterable[str], modules: Mapping[str, str], side: str) -> None:
    for name in wanted:
        if not any(name in module for module in modules):
            hint = nearest(name, [*modules.values(), *modules])
            raise ConfigError(f"the mapping names {name!r}, which no module of the {side} has.{hint}")


def _refuse_what_pairs_nothing(
    mapping: Mapping[str, str], candidate: Mapping[str, str], baseline: Mapping[str, str]
) -> None:
    """Refuse a line that renames modules to what the candidate does not have: a part of a name matches too easily."""
    places = {*candidate, *candidate.values()}
    for name, partner in mapping.items():
        found = [(module, path) for module, path in baseline.items() if partner in module]
        names = {place.replace(partner, name, 1) for both in found for place in both if partner in place}
        if names.isdisjoint(places):
            hint = nearest(partner, [path for path in baseline.values() if path != partner])
            raise ConfigError(
                f"the mapping of {name!r} to {partner!r} pairs no module: the candidate has no {min(names)!r}.{hint}"
            )
