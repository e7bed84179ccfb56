"""LOCK, in the database: one row per site that is locked by whoever changes what keeps the site closed."""

from collections.abc import Iterable

from django.db import connection

from jobs import statements
from jobs.conflicts import must_wait
from jobs.models import SiteGate
from jobs.profile import SiteLock
from jobs.statements import Columns, among
from jobs.states import CLOSING

Gates = dict[int, SiteGate]
_GATE = Columns(SiteGate)
_PASSING = "FOR UPDATE SKIP LOCKED"
_CLOSING = ", ".join(f"'{status.value}'" for status in CLOSING)
_COUNT = f"""
    (SELECT COUNT(*) FROM jobs_job WHERE site_id = jobs_sitegate.site_id AND status IN ({_CLOSING}) AND {{}})
"""  # noqa: S608 - of constants
_RECOUNT = f"""
    UPDATE jobs_sitegate SET exclusive = {_COUNT.format("lock = 'EXCLUSIVE'")},
        mutating = {_COUNT.format("lock = 'EXCLUSIVE' AND mutating")},
        shared = {_COUNT.format("lock = 'SHARED'")}
    WHERE site_id IN ({{sites}}) RETURNING site_id, exclusive, mutating, shared
"""  # noqa: S608 - of constants


def lock(site_ids: Iterable[int | None], *, only_free: bool = False) -> Gates:
    """Lock the gates of these sites until the transaction ends, in the order of their keys; give them.

    With `only_free` those that somebody else holds are passed over. Comes before every lock on a job.
    """
    wanted = sorted({site_id for site_id in site_ids if site_id is not None})
    if not wanted:
        return {}
    found = _locked(wanted, only_free=only_free)
    missing = [] if only_free and connection.vendor == "postgresql" else _missing(wanted, found)
    if missing:
        SiteGate.objects.bulk_create([SiteGate(site_id=pk) for pk in missing], ignore_conflicts=True)
        found |= _locked(missing, only_free=only_free)
    return found


def forbids(gate: SiteGate | None, lock: str, mutating: bool) -> bool:
    """Whether what keeps the site closed now excludes work of this kind."""
    if gate is None or lock == SiteLock.NONE:
        return False
    alone = bool(gate.exclusive) and must_wait(SiteLock.EXCLUSIVE, bool(gate.mutating), lock, mutating)
    return alone or (bool(gate.shared) and must_wait(SiteLock.SHARED, False, lock, mutating))


def recount(held: Gates, site_ids: Iterable[int | None]) -> None:
    """Work out anew, from the rows of jobs, what keeps these sites closed, and note it in the held gates.

    Raises IntegrityError where the jobs exclude each other.
    """
    changed = sorted({pk for pk in site_ids if pk is not None and pk in held})
    if not changed:
        return
    marks = ", ".join(["%s"] * len(changed))
    with connection.cursor() as cursor:
        cursor.execute(_RECOUNT.format(sites=marks), changed)
        for site_id, exclusive, mutating, shared in cursor.fetchall():
            gate = held[site_id]
            gate.exclusive, gate.mutating, gate.shared = exclusive, mutating, shared


def _locked(site_ids: list[int], *, only_free: bool) -> Gates:
    which, values = among(site_ids)
    locking = "" if connection.vendor != "postgresql" else _PASSING if only_free else "FOR UPDATE"
    sql = f"SELECT {_GATE.sql} FROM jobs_sitegate WHERE site_id {which} ORDER BY site_id {locking}"  # noqa: S608
    with connection.cursor() as cursor:
        statements.run(cursor, sql, values)
        return {gate.pk: gate for gate in map(_GATE.instance, cursor.fetchall())}


def _missing(wanted: list[int], found: Gates) -> list[int]:
    return [pk for pk in wanted if pk not in found]
