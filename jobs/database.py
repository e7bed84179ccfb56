"""Outliving a database that goes away and comes back."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

import psycopg
from django.db import InterfaceError, InternalError, OperationalError, connection

logger = logging.getLogger(__name__)
Value = TypeVar("Value")
# Django does not translate all of the driver's errors: not those of a cursor that ends with its session.
# A server that has become a standby refuses writes with an InternalError.
TROUBLE = (
    *(OperationalError, InterfaceError, InternalError),
    *(psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError),
)
LONGEST_PAUSE = 5.0


def insist(act: Callable[[], Value], *, giving_up: Callable[[], bool] = lambda: False) -> Value:
    """Do a database act until the database lets it; give its value.

    The act must be safe to repeat. Raises the database's error only once `giving_up` says so.
    """
    pause = 0.1
    while True:
        try:
            return act()
        except TROUBLE as error:
            connection.close()
            if giving_up():
                raise
            logger.warning("database trouble, trying again in %.1f s: %s", pause, error)
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
