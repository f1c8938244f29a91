"""Names that a user says belong together: items (`-dm`) and modules (`-cm`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from torchparity.comparing.pairing.rows import Row, Side
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


def mapped_rows(
    grouped: list[list[Row]], mapping: Mapping[str, str], baseline: Mapping[str, Record]
) -> list[list[Row]]:
    """Return the rows with the partners that the mapping names; what loses its partner is listed alone."""
    sides = {
        record.item_name(item.name): Side(record.item_name(item.name), item.leaf)
        for record in baseline.values()
        for item in record.items()
    }
    known = {row.candidate.name for rows in grouped for row in rows if row.candidate is not None}
    _refuse_unknown(mapping, known, sides)
    for rows in grouped:
        for row in list(rows):
            if row.candidate is None or row.candidate.name not in mapping:
                continue
            if row.baseline is not None:
                rows.append(Row(row.record, row.role, row.direction, None, row.baseline))
            row.baseline = sides[mapping[row.candidate.name]]
    taken = {row.baseline.name for rows in grouped for row in rows if row.is_matched and row.baseline is not None}
    return [[row for row in rows if row.candidate is not None or row.name not in taken] for rows in grouped]


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
    _refuse_unknown_modules(mapping.keys(), candidate, "candidate")
    _refuse_unknown_modules(mapping.values(), records, "baseline")
    back = {baseline: name for name, baseline in mapping.items()}
    names = {name: renamed(name, back) for name in records}
    given_away = {new for name, new in names.items() if new != name}
    found: dict[str, Record] = {}
    for name, record in records.items():
        new = names[name]
        while new in found or (new == name and new in given_away):
            new += "#"  # the name is that of another module now; this one has no partner
        found[new] = record
    return found


def renamed(name: str, back: Mapping[str, str]) -> str:
    """Return the candidate's name for a module record of the baseline."""
    if not is_module_name(name):
        return name
    for baseline, candidate in sorted(back.items(), key=lambda pair: -len(pair[0])):
        if baseline in name:
            return name.replace(baseline, candidate, 1)
    return name


def _refuse_unknown_modules(wanted: Iterable[str], records: Iterable[str], side: str) -> None:
    modules = {family_of(name).removeprefix("Module.") for name in records if is_module_name(name)}
    for name in wanted:
        if not any(name in module for module in modules):
            raise ConfigError(f"the mapping names {name!r}, which no module of the {side} has.{nearest(name, modules)}")
