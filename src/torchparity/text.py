"""Words and numbers in sentences for people, and text from files made safe for a terminal."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return "1 record" or "3 records"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def readable_bytes(amount: float) -> str:
    """Return "512 B" or "3.4 MiB"."""
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def printable(text: str) -> str:
    """Return text from a file as a terminal may see it: no control characters, no half characters."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def one_line(text: str) -> str:
    """Return text from a file as one line of a terminal: a name that holds a newline must not begin another."""
    return printable(text).replace("\n", "?")
