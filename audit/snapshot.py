"""One consistent look at the whole trail, entry by entry, however many there are."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

from django.db import connection, transaction
from django.db.models import Subquery

from audit.chain import COLUMNS, Mark
from audit.models import AuditEntry, AuditHead

CHUNK = 2_000


class Snapshot:
    """The entries from the first on, as mappings with COLUMNS; and the head as it stood at that moment.

    `head` is to be read after the entries were gone through. It is None where its row is missing or holds
    no sequence and code.
    """

    def __init__(self) -> None:
        head = AuditHead.objects.filter(pk=AuditHead.ONLY).values_list("sequence", "mac").first()
        self.head = _mark(*head) if head else None

    def __iter__(self) -> Iterator[dict[str, object]]:
        """Give the entries. One statement reads them and the head, so that both are of one moment."""
        head = AuditHead.objects.filter(pk=AuditHead.ONLY)
        entries = AuditEntry.objects.order_by("sequence").annotate(
            head_sequence=Subquery(head.values("sequence")), head_mac=Subquery(head.values("mac"))
        )
        with _cursor_scope():
            for row in entries.values(*COLUMNS, "head_sequence", "head_mac").iterator(CHUNK):
                self.head = _mark(row.pop("head_sequence"), row.pop("head_mac"))
                yield row


def _mark(sequence: object, mac: object) -> Mark | None:
    # Whoever can write the database can put anything there; SQLite keeps any type in any column.
    return Mark(sequence, mac) if isinstance(sequence, int) and isinstance(mac, str) else None


def _cursor_scope() -> AbstractContextManager[object]:
    """PostgreSQL copies the whole answer first when its cursor is to outlive a transaction."""
    return transaction.atomic() if connection.vendor == "postgresql" else nullcontext()
