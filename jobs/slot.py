"""A slot: a child process that runs one job at a time, and leaves when its supervisor is gone."""

from multiprocessing.connection import Connection

from django.db import close_old_connections

from jobs.execution import Order, run_hand
from jobs.ledger import Ledger


def serve(orders: Connection, ledger: Ledger) -> None:
    """Run what is ordered: a hand of claimed jobs, each as (key, token). The answer is "done".

    The end of the pipe means that the supervisor has died or wants no more: the slot leaves.
    """
    try:
        orders.send("ready")
        while True:
            hand: list[Order] = orders.recv()
            close_old_connections()
            run_hand(hand, lambda position: setattr(ledger, "begun", position))
            orders.send("done")
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
