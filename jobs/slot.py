"""A slot: a child process that runs one job at a time, and leaves when its supervisor is gone."""

import time
from multiprocessing.connection import Connection

from django.db import close_old_connections

from jobs.execution import Order, run_hand
from jobs.ledger import Ledger

# A connection that was used within so many seconds is not asked first whether it still is one.
IDLE_SECONDS = 5.0


def serve(orders: Connection, ledger: Ledger) -> None:
    """Run what is ordered: a hand of claimed jobs, each as (key, token). The answer is "done".

    The end of the pipe means that the supervisor has died or wants no more: the slot leaves.
    """
    used = 0.0
    try:
        orders.send("ready")
        while True:
            hand: list[Order] = orders.recv()
            if time.monotonic() - used > IDLE_SECONDS:
                close_old_connections()
            run_hand(hand, lambda position: setattr(ledger, "begun", position))
            used = time.monotonic()
            orders.send("done")
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
