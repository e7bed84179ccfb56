"""Plain tables for people at a terminal, within 80 columns where the values allow it."""

from collections.abc import Sequence
from datetime import datetime


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Give aligned columns under their heads; the last column is not padded."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[index]) for row in cells) for index in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def facts(pairs: Sequence[tuple[str, object]]) -> str:
    """Give one line per fact; facts without a value are left out."""
    shown = [(name, value) for name, value in pairs if value not in (None, "")]
    width = max(len(name) for name, _ in shown) + 2
    return "\n".join(f"{name + ':':<{width}}{value}" for name, value in shown)


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
