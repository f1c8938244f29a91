"""torchparity api_precision_compare: judge a check by its errors beside those of a check on a device you trust.

torchparity api_precision_compare -npu npu/accuracy_checking_details.csv -gpu gpu/accuracy_checking_details.csv
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path

from torchparity import plugins
from torchparity.errors import UnknownPluginError
from torchparity.text import counted, one_line

_MOST_SHOWN = 10


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        *("-npu", "--npu_csv_path", "--candidate"),
        type=Path,
        required=True,
        metavar="CSV",
        dest="candidate",
        help="accuracy_checking_details.csv of the device under suspicion",
    )
    parser.add_argument(
        *("-gpu", "--gpu_csv_path", "--baseline"),
        type=Path,
        required=True,
        metavar="CSV",
        dest="baseline",
        help="accuracy_checking_details.csv of the device you trust",
    )
    parser.add_argument(
        *("-o", "--out_path"), type=Path, default=Path(), metavar="DIR", help="folder for the tables (.)"
    )
    formats = ",".join(plugins.names("report.formats"))
    parser.add_argument("--format", default="csv", metavar="LIST", help=f"tables to write, of {formats} (csv)")
    parser.add_argument(
        "--fail-on", choices=["error", "never"], default="never", help="exit with 1 when an API is judged so"
    )


def run(options: Namespace) -> int:
    """Return 0, or 1 with --fail-on error when an API's errors are beyond its standard."""
    from torchparity.check.two_checks import compare_checks

    formats = [word.strip() for word in options.format.split(",") if word.strip()]
    for name in formats:
        if name not in plugins.names("report.formats"):
            raise UnknownPluginError("report format", name, plugins.names("report.formats"))
    compared = compare_checks(_details_of(options.candidate), _details_of(options.baseline))
    written = compared.write(options.out_path, formats)
    wrong = [call for call in compared.calls if "error" in (call.forward, call.backward)]
    has_many_places = len({call.place for call in compared.calls}) > 1
    for call in wrong[:_MOST_SHOWN]:
        directions = [word for word in ("forward", "backward") if getattr(call, word) == "error"]
        place = f"step {call.place.step}, rank {call.place.rank}: " if has_many_places else ""
        print(one_line(f"error: {place}{call.name}, {' and '.join(directions)}"))
    if len(wrong) > _MOST_SHOWN:
        print(f"and {len(wrong) - _MOST_SHOWN} more")
    counts = Counter(str(result.status) for result in compared.results)
    judged = ", ".join(f"{counts[word]} {word}" for word in ("pass", "error", "SKIP") if counts[word])
    print(f"{counted(len(compared.calls), 'call')}, {counted(len(compared.results), 'result')}: {judged or 'none'}")
    for path in written:
        print(f"Wrote {path}")
    return int(bool(wrong) and options.fail_on == "error")


def _details_of(path: Path) -> Path:
    """Return the details file of a check, which may be named by its folder."""
    return path / "accuracy_checking_details.csv" if path.is_dir() else path
