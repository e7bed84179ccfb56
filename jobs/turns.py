"""Turns: within a priority customers take turns, however many jobs each has queued.

A job gets its turn when it gets in line: the one behind its customer's last, and never one that has passed.
So the order of the queue is stored, and handing out work needs no look at the customers (start-time fair
queueing, with the turn of the first ready job as the virtual time).
"""

from django.db import connection

from jobs.states import WAITING, Readiness

_WAITING = ", ".join(f"'{value}'" for value in WAITING)
_LARGER = {"postgresql": "GREATEST", "sqlite": "MAX"}
# Two look-ups at the end of an index each.
_NEXT = """
    SELECT {larger}(
        COALESCE((SELECT MAX(turn) + 1 FROM jobs_job
                  WHERE customer_id {customer} AND priority = %s AND readiness IN ({waiting})), 0),
        COALESCE((SELECT MIN(turn) FROM jobs_job WHERE priority = %s AND readiness = '{ready}'), 0)
    )
"""


class Turns:
    """Hands out turns within one transaction."""

    def __init__(self) -> None:
        self._next: dict[tuple[int | None, int], int] = {}

    def take(self, customer_id: int | None, priority: int) -> int:
        """Give the next turn of a customer within a priority. Work without a customer counts as one."""
        whose = (customer_id, priority)
        turn = self._next.get(whose)
        if turn is None:
            turn = _read(customer_id, priority)
        self._next[whose] = turn + 1
        return turn


def _read(customer_id: int | None, priority: int) -> int:
    sql = _NEXT.format(
        larger=_LARGER[connection.vendor],
        customer="IS NULL" if customer_id is None else "= %s",
        waiting=_WAITING,
        ready=Readiness.READY.value,
    )
    whose = [] if customer_id is None else [customer_id]
    with connection.cursor() as cursor:
        cursor.execute(sql, [*whose, priority, priority])
        (turn,) = cursor.fetchone()
    return int(turn)
