"""The one clock by which due, stale and late are judged: the database's."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import connection
from django.db.transaction import get_connection

from audit import transactions
from audit.transactions import Savepoints

_READ = {
    # Not now(): that is when the transaction began, perhaps long before its locks were granted.
    "postgresql": "SELECT clock_timestamp()",
    "sqlite": "SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now')",
}


@dataclass(frozen=True, eq=False)
class _Reading:
    """What was read in a transaction. It lives in the transaction's list of commit hooks and dies with it.

    That list is emptied by commit and by rollback alike, while the objects that stand for a transaction
    are used again for the next one.
    """

    moment: datetime
    transaction: Savepoints

    def __call__(self) -> None:
        """Nothing is left to do at commit."""


def database_now() -> datetime:
    """Give the database's time, aware and in UTC.

    Inside a transaction it is read once and stays the same until the transaction ends; outside it is read
    anew each time. The resolution is a microsecond on PostgreSQL and a millisecond on SQLite.
    """
    wrapper = get_connection()
    around = transactions.around(wrapper)
    if around is None or None in around:  # None: a block without a savepoint, inside a test case's own
        return _source()
    hooks: list[Any] = wrapper.run_on_commit
    for _, hook, *_ in hooks:
        if isinstance(hook, _Reading) and hook.transaction == around:
            return hook.moment
    reading = _Reading(_source(), around)
    # Not on_commit(): a hook set inside a savepoint of the transaction is lost when that is rolled back.
    hooks.append((set(around), reading, False))
    return reading.moment


def as_text(moment: datetime) -> str:
    """Give an aware moment as the trail writes it: 27 characters, UTC, with microseconds."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


@contextmanager
def override(source: datetime | Callable[[], datetime]) -> Iterator[None]:
    """Put a fixed moment, or a function that gives moments, in the place of the database's clock."""
    global _source  # noqa: PLW0603 - the one switch that tests turn
    before = _source
    _source = source if callable(source) else partial(_same, source)
    try:
        yield
    finally:
        _source = before


def _same(moment: datetime) -> datetime:
    return moment


def _read() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute(_READ[connection.vendor])
        (moment,) = cursor.fetchone()
    if isinstance(moment, str):
        return datetime.fromisoformat(moment).replace(tzinfo=UTC)
    read: datetime = moment.astimezone(UTC)
    return read


_source: Callable[[], datetime] = _read
