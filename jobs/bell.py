"""The bell: tells idle workers that work has become ready. Only a help: polling alone is enough."""

from django.db import connection

CHANNEL = "chp_jobs"


def ring() -> None:
    """Tell all listening workers, once the transaction commits.

    SQLite has no notifications: there workers look whether the file has changed.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])
