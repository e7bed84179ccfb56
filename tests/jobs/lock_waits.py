"""Who stands before a lock of the database, for tests that need two at the same moment."""

import time
from collections.abc import Callable

from django.db import connection


def until_waiting(enough: Callable[[int], bool], seconds: float) -> bool:
    """Wait until so many sessions stand before a lock as are enough; say whether that came in time.

    On SQLite, where a writer cannot even begin beside another, it gives the others a moment.
    """
    if connection.vendor != "postgresql":
        time.sleep(0.3)
        return True
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT COUNT(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            if enough(cursor.fetchone()[0]):
                return True
        time.sleep(0.01)
    return False
