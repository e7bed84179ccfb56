"""Plain tables for people at a terminal, within 80 columns where the values allow it."""

import textwrap
from collections.abc import Sequence
from datetime import datetime

WIDTH = 80
# A last column that would be narrower than this is not broken: it would tell nothing.
NARROWEST = 20


def fitted(line: str, indent: int = 4) -> str:
    """Break a line at its spaces so that it fits a terminal; what follows is indented so far."""
    if len(line) <= WIDTH or WIDTH - indent < NARROWEST:
        return line
    broken = textwrap.wrap(
        line,
        WIDTH,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    )
    return "\n".join(broken)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Give aligned columns under their heads; the last column is not padded, and broken where it is long."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[index]) for row in cells) for index in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    before_last = sum(widths[:-1]) + 2 * (len(widths) - 1)
    return "\n".join(fitted(line, before_last) for line in lines)


def facts(pairs: Sequence[tuple[str, object]]) -> str:
    """Give one line per fact; facts without a value are left out."""
    shown = [(name, value) for name, value in pairs if value not in (None, "")]
    width = max(len(name) for name, _ in shown) + 2
    return "\n".join(fitted(f"{name + ':':<{width}}{value}", width) for name, value in shown)


def moment(value: datetime | None) -> str:
    """Give a time in UTC to the second."""
    return f"{value:%Y-%m-%d %H:%M:%S}" if value else ""


def size(count: int) -> str:
    """Give bytes in the largest unit that leaves a number of at least 1."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
