"""The only writer of the audit trail."""

import json
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db import connection, transaction

from audit import keys, transactions
from audit.actions import Action
from audit.chain import COLUMNS, GENESIS, mac_of
from audit.clock import as_text, database_now
from audit.exceptions import HeadMissing, OutsideTransaction
from audit.keys import KeyRing
from audit.models import AuditEntry, AuditHead
from audit.redaction import clean_data, clean_text

REASON_LIMIT = 2_000
_denials: ContextVar[int] = ContextVar("denials", default=0)
DATA_LIMIT = 16_000
# The columns in the order of audit.chain.COLUMNS.
_INSERT = """
    INSERT INTO audit_auditentry (
        sequence, at, actor, actor_kind, tenant, action, target, reason, result, data, key_id, previous, mac
    ) VALUES
"""
_ROW = f"({', '.join(['%s'] * len(COLUMNS))})"
# Entries in one statement.
BATCH = 500
_HEAD = "SELECT sequence, mac FROM audit_audithead WHERE id = %s"
_ADVANCE = "UPDATE audit_audithead SET sequence = %s, mac = %s WHERE id = %s"


@dataclass(frozen=True)
class Entry:
    """What is to be recorded: who did what to which thing of which tenant, why, and how it came out.

    Texts may come from outside; they are cleaned, and cut to their columns. `data` is any mapping.
    """

    action: Action
    actor: str
    actor_kind: str
    tenant: str = ""
    target: str = ""
    reason: str = ""
    result: str = ""
    data: Mapping[str, object] = field(default_factory=dict)


class _Head(NamedTuple):
    """Where the chain ends."""

    sequence: int
    mac: str


def record(*entries: Entry) -> list[AuditEntry]:
    """Append entries to the chain, in the caller's transaction, as its last statement before the commit.

    Takes a constant number of queries however many entries there are. The head's row stays locked until the
    transaction ends. Raises OutsideTransaction, KeyFileRefused and HeadMissing.
    """
    if not transactions.is_open():
        raise OutsideTransaction("Entries are recorded inside atomic(), together with what they tell of.")
    if not entries:
        return []
    at, ring = as_text(database_now()), keys.load()
    # Cleaned before the head is locked: all other writers wait from then on.
    cleaned = [_cleaned(entry, at) for entry in entries]
    rows = _linked(cleaned, _locked_head(), ring)
    _append(rows)
    return rows


def record_denial(entry: Entry) -> AuditEntry:
    """Record a refusal in a transaction of its own, which is committed when this returns.

    Raises RuntimeError inside another transaction: what was refused is rolled back there, and the refusal
    with it. Ask `may_record_denial` where that can be.
    """
    with transaction.atomic(durable=True):
        recorded = record(entry)[0]
    _denials.set(_denials.get() + 1)
    return recorded


def denials_recorded() -> int:
    """Give how many refusals this thread of work has recorded, so that a later stage need not do it again."""
    return _denials.get()


def may_record_denial() -> bool:
    """Say whether `record_denial` can be called here: whether no transaction is open."""
    return not transactions.is_open()


def _locked_head() -> _Head:
    head = _read_head()
    if head is None:
        # An emptied table. Whoever comes second waits here for the first one's row.
        AuditHead.objects.bulk_create([AuditHead(sequence=0, mac=GENESIS)], ignore_conflicts=True)
        head = _read_head()
    if head is None or (head.sequence == 0 and AuditEntry.objects.exists()):
        raise HeadMissing("The trail has entries but its head is gone or reset. Run: hosting-audit verify")
    return head


def _read_head() -> _Head | None:
    # Not by the ORM: everybody who writes comes here, and composing it takes longer than all the rest.
    locking = " FOR UPDATE" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(_HEAD + locking, [AuditHead.ONLY])
        row = cursor.fetchone()
    return None if row is None else _Head(*row)


def _cleaned(entry: Entry, at: str) -> AuditEntry:
    data = clean_data(dict(entry.data), DATA_LIMIT)
    return AuditEntry(
        at=at,
        actor=clean_text(entry.actor, 200),
        actor_kind=clean_text(entry.actor_kind, 20),
        tenant=clean_text(entry.tenant, 100),
        action=Action(entry.action).value,
        target=clean_text(entry.target, 300),
        reason=clean_text(entry.reason, REASON_LIMIT),
        result=clean_text(entry.result, 100),
        data=json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False),
    )


def _linked(rows: list[AuditEntry], head: _Head, ring: KeyRing) -> list[AuditEntry]:
    previous = head.mac
    for sequence, row in enumerate(rows, head.sequence + 1):
        row.sequence, row.key_id, row.previous = sequence, ring.current, previous
        row.mac = previous = mac_of(_values(row), ring.keys[ring.current])
    return rows


def _values(row: AuditEntry) -> dict[str, object]:
    return dict(zip(COLUMNS, _columns(row), strict=True))


def _columns(row: AuditEntry) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in COLUMNS)


def _append(rows: list[AuditEntry]) -> None:
    """Write entries and advance the head, while all others wait for it: in as few round trips as can be."""
    last: list[Any] = [rows[-1].sequence, rows[-1].mac, AuditHead.ONLY]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            *most, end = [rows[at : at + BATCH] for at in range(0, len(rows), BATCH)]
            for part in most:
                cursor.execute(*_insert_of(part))
            sql, values = _insert_of(end)
            cursor.execute(f"{sql}; {_ADVANCE}", [*values, *last])
        else:
            cursor.executemany(_INSERT + _ROW, [_columns(row) for row in rows])
            cursor.execute(_ADVANCE, last)
    for row in rows:
        row._state.adding, row._state.db = False, connection.alias


def _insert_of(rows: list[AuditEntry]) -> tuple[str, list[Any]]:
    return _INSERT + ", ".join([_ROW] * len(rows)), [value for row in rows for value in _columns(row)]
