"""What is asked of the trail: newest first, a page at a time, by keys that indexes serve."""

from dataclasses import dataclass

from django.db.models import QuerySet

from audit.models import AuditEntry

LONGEST_PAGE = 1_000


@dataclass(frozen=True)
class Wanted:
    """Which entries are asked for; an empty field means any. `before` is where the last page ended."""

    action: str = ""
    actor: str = ""
    tenant: str = ""
    target: str = ""
    before: int | None = None


def entries(wanted: Wanted) -> QuerySet[AuditEntry]:
    """Give the wanted entries, newest first."""
    exact = {name: getattr(wanted, name) for name in ("action", "actor", "tenant", "target")}
    found = AuditEntry.objects.filter(**{name: value for name, value in exact.items() if value})
    if wanted.before is not None:
        found = found.filter(sequence__lt=wanted.before)
    return found.order_by("-sequence")


def page(wanted: Wanted, size: int = 50) -> list[AuditEntry]:
    """Give one page of the wanted entries. The next one begins before the last entry's sequence."""
    return list(entries(wanted)[: min(max(size, 1), LONGEST_PAGE)])
