"""Names that a user says belong together: items (`-dm`) and modules (`-cm`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from torchparity.compare._rows import Row, Side
from torchparity.errors import ConfigError, nearest
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
    """Return the rows with the partners that the mapping names; the rest is as it was."""
    sides = {
        record.item_name(item.name): Side(record.item_name(item.name), item.leaf)
        for record in baseline.values()
        for item in record.items()
    }
    known = {row.candidate.name for rows in grouped for row in rows if row.candidate is not None}
    _refuse_unknown(mapping, known, sides)
    wanted = set(mapping.values())
    result = []
    for rows in grouped:
        kept = []
        for row in rows:
            if row.candidate is not None and row.candidate.name in mapping:
                row.baseline = sides.get(mapping[row.candidate.name])
            if row.candidate is not None or row.name not in wanted:
                kept.append(row)
        result.append(kept)
    return result


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


def renamed_modules(records: Mapping[str, Record], mapping: Mapping[str, str]) -> Mapping[str, Record]:
    """Return the baseline's records under the candidate's names for its modules; an exact `path.Class` wins."""
    if not mapping:
        return records
    back = {baseline: candidate for candidate, baseline in mapping.items()}
    renamed = {}
    for name, record in records.items():
        new = _renamed(name, back)
        renamed[new] = record if new == name else msgspec.structs.replace(record, name=new)
    return renamed


def _renamed(name: str, back: Mapping[str, str]) -> str:
    if not name.startswith("Module."):
        return name
    for baseline, candidate in sorted(back.items(), key=lambda pair: -len(pair[0])):
        if baseline in name:
            return name.replace(baseline, candidate, 1)
    return name
