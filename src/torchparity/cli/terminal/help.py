"""Help of the command line in colours, with headings as they are written."""

from __future__ import annotations

from rich_argparse import RawDescriptionRichHelpFormatter


def _heading(text: str) -> str:
    return text[:1].upper() + text[1:]


class Help(RawDescriptionRichHelpFormatter):
    """Help whose headings keep the names of options and files."""

    group_name_formatter = _heading
