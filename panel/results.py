"""A job's result in words: what the work made, without places on the server."""

from collections.abc import Mapping
from typing import Any

from django.template.defaultfilters import filesizeformat

from jobs.models import Job

LABELS = {
    "backup": "Backup",
    "safety_backup": "Safety backup",
    "verified": "Verified",
    "files": "Files",
    "size_bytes": "Size",
    "databases": "Databases",
    "status": "First page answers",
}
MOST_NAMED = 10


def facts_of(job: Job) -> list[tuple[str, str]]:
    """Give label and text of each known value of the result, in a fixed order."""
    result = job.result
    if not isinstance(result, Mapping):
        return []
    known = {key: result[key] for key in LABELS if result.get(key) not in (None, [])}
    return [(LABELS[key], _text(key, value)) for key, value in known.items()]


def _text(key: str, value: Any) -> str:
    if key == "size_bytes" and isinstance(value, int):
        return filesizeformat(value)
    if key == "status":
        return f"HTTP {value}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return _names(value)
    return str(value)


def _names(rows: list[Any]) -> str:
    names = [str(row.get("name", "")) if isinstance(row, Mapping) else str(row) for row in rows[:MOST_NAMED]]
    more = len(rows) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
