"""The YAML file of merge_result: `api`, the names to merge, and `compare_index`, the metrics."""

from __future__ import annotations

from pathlib import Path

import msgspec

from torchparity.errors import ConfigError, nearest

_KEYS = ("api", "compare_index")
_MOST_BYTES = 1 << 20
_EXAMPLE = "such as '- Distributed.all_reduce'"


class MergeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The names whose rows are merged, each the beginning of some, and the metrics; none stands for all."""

    apis: list[str]
    metrics: list[str] = msgspec.field(default_factory=list)


def read_config(path: Path) -> MergeConfig:
    """Return the content of a YAML file; raise `ConfigError` if it is not as merge_result has it."""
    content = _content(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must have the key 'api' with a list of names, {_EXAMPLE}.")
    for key in content:
        if key not in _KEYS:
            raise ConfigError(
                f"{path} has the unknown key {key[:60]!r}.{nearest(key, _KEYS)} There are: api, compare_index."
            )
    apis = _names(path, "api", content.get("api"))
    if not apis:
        raise ConfigError(f"{path} names no API: the key 'api' must have a list of names, {_EXAMPLE}.")
    return MergeConfig(apis=apis, metrics=_names(path, "compare_index", content.get("compare_index")))


def _content(path: Path) -> object:
    import yaml

    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"{path} has more than {_MOST_BYTES:,} bytes; a list of names and metrics is shorter.")
        # Every scalar is a name here: the safe loader would make dates, numbers and booleans of some.
        return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except OSError as error:
        raise ConfigError(f"the configuration {path} cannot be read ({error.strerror}).") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid YAML ({str(error).splitlines()[0]}).") from None


def _names(path: Path, key: str, value: object) -> list[str]:
    """Return a list of names, without what stands in it twice; one name may be given without a list."""
    if value is None or value == "":
        return []
    names = [value] if isinstance(value, str) else value
    # What is no text is not shown: a few lines of YAML can stand for gigabytes of it.
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{path}: {key!r} must be a list of names, one on each line, {_EXAMPLE}.")
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))
