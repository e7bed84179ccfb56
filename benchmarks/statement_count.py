"""Counting what a process asks of SQLite: a byte in a file for every statement that the library executes.

It is switched on by the variable, in the worker's environment alone. The count comes from the library's own
trace, so that it holds what Django's wrappers do not see: the end of each transaction, and pragmas.
"""

import os
from typing import Any

from django.db.backends.signals import connection_created

VARIABLE = "CHP_BENCH_STATEMENTS"


def install() -> None:
    """Count on every SQLite connection that this process opens from now on."""
    descriptor = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(statement: str) -> None:
        os.write(descriptor, b".")

    def trace(sender: object, connection: Any, **rest: object) -> None:
        if connection.vendor == "sqlite":
            connection.connection.set_trace_callback(note)

    connection_created.connect(trace, weak=False, dispatch_uid="benchmarks.statement_count")
