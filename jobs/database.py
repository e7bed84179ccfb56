"""Outliving a database that goes away and comes back."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

logger = logging.getLogger(__name__)
Value = TypeVar("Value")
TROUBLE = (OperationalError, InterfaceError)
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
