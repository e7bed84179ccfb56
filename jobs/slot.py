"""A slot: a child process that runs one job at a time, and leaves when its supervisor is gone."""

from multiprocessing.connection import Connection

from django.db import close_old_connections

from jobs.execution import run_attempt


def serve(orders: Connection) -> None:
    """Run attempts as they are ordered. An order is (job key, claim token); the answer is the token.

    The end of the pipe means that the supervisor has died or wants no more: the slot leaves.
    """
    orders.send("ready")
    while True:
        try:
            job_id, token = orders.recv()
        except EOFError:
            return
        close_old_connections()
        run_attempt(job_id, token)
        try:
            orders.send(token)
        except (BrokenPipeError, ConnectionResetError):
            return
