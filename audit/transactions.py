"""Whether a transaction of ours is open, and which one."""

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import get_connection

Savepoints = tuple[str | None, ...]


def is_open() -> bool:
    """Say whether the caller stands inside `atomic()`.

    The block that a test case wraps around each test is never committed and is no transaction of ours.
    """
    return around(get_connection()) is not None


def around(connection: BaseDatabaseWrapper) -> Savepoints | None:
    """Give the savepoints that hold the outermost transaction of ours; None where there is none.

    In production the answer inside a transaction is (). Inside a test case our outermost block is a
    savepoint, and its name tells it from every other one.
    """
    for position, block in enumerate(connection.atomic_blocks):
        if not getattr(block, "_from_testcase", False):
            return tuple(connection.savepoint_ids[:position])
    return None
