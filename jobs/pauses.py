"""Pauses: work that is held back, of everything, a type, a server or a site, by whom and why.

What already runs goes on. The pause of a site is stored with its ready jobs, the others are looked at by
each claim.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction

from accounts.actor import Actor
from accounts.record_changes import require_operator
from audit import trail
from audit.actions import Action
from audit.clock import database_now
from jobs import bell, gates, limits, readiness
from jobs.exceptions import Invalid, WrongState
from jobs.models import Pause, PauseScope, SiteGate
from jobs.request import MAX_REASON
from sites.models import Server, Site

HELD_BACK = "SELECT scope, job_type, server_id FROM jobs_pause"


@dataclass(frozen=True)
class Paused:
    """What is held back now, as far as a claim must look."""

    everything: bool
    types: frozenset[str]
    servers: frozenset[int]
    pauses: tuple[Pause, ...] = ()

    def holding(self, job_type: str, server_id: int | None, site_id: int | None) -> Pause | None:
        """Give the pause that holds such a job back, or None."""
        return next((pause for pause in self.pauses if _holds(pause, job_type, server_id, site_id)), None)


@dataclass(frozen=True)
class Target:
    """What is to be paused or resumed: everything, or one type, server or site."""

    scope: PauseScope
    job_type: str = ""
    server: Server | None = None
    site: Site | None = None

    @property
    def name(self) -> str:
        """all, type:BACKUP, server:3 or site:7."""
        match self.scope:
            case PauseScope.TYPE:
                return f"type:{self.job_type}"
            case PauseScope.SERVER if self.server is not None:
                return f"server:{self.server.pk}"
            case PauseScope.SITE if self.site is not None:
                return f"site:{self.site.pk}"
        return "all"

    def __str__(self) -> str:
        return (
            "everything" if self.scope == PauseScope.ALL else str(self.job_type or self.server or self.site)
        )


def held_back(rows: Sequence[tuple[str, str, int | None]]) -> Paused:
    """Give what is held back by what HELD_BACK has found: as far as a claim must look, without the rows."""
    return Paused(
        everything=any(scope == PauseScope.ALL for scope, _, _ in rows),
        types=frozenset(job_type for scope, job_type, _ in rows if scope == PauseScope.TYPE),
        servers=frozenset(server for _, _, server in rows if server is not None),
    )


def in_force() -> Paused:
    """Give what is held back now, in one query."""
    rows = tuple(Pause.objects.select_related("server", "site"))
    return Paused(
        everything=any(pause.scope == PauseScope.ALL for pause in rows),
        types=frozenset(pause.job_type for pause in rows if pause.scope == PauseScope.TYPE),
        servers=frozenset(pause.server_id for pause in rows if pause.server_id is not None),
        pauses=rows,
    )


def pause(actor: Actor, target: Target, reason: str) -> Pause:
    """Hold back what belongs to the target, from the moment this returns.

    Raises NotAllowed, Invalid without a reason, WrongState where it is paused already.
    """
    require_operator(actor, f"pause {target}", f"pause:{target.name}")
    _require_reason(reason)
    with transaction.atomic():
        limits.lock()
        held = _marked(target, paused=True)
        earlier = Pause.objects.filter(target=target.name).first()
        if earlier is not None:
            raise WrongState(f"Paused already: {target}, by {earlier.paused_by}: {earlier.reason}")
        row = Pause.objects.create(
            scope=target.scope,
            target=target.name,
            job_type=target.job_type,
            server=target.server,
            site=target.site,
            paused_by=actor.label,
            reason=reason,
            since=database_now(),
        )
        if held and target.site is not None:
            readiness.pause_site(target.site.pk)
        _record(actor, Action.JOBS_PAUSED, target, reason)
    return row


def resume(actor: Actor, target: Target, reason: str) -> None:
    """Let the target's work go on. Raises NotAllowed, Invalid, and WrongState where it is not paused."""
    require_operator(actor, f"resume {target}", f"pause:{target.name}")
    _require_reason(reason)
    with transaction.atomic():
        limits.lock()
        held = _marked(target, paused=False)
        if not Pause.objects.filter(target=target.name).delete()[0]:
            raise WrongState(f"Not paused: {target}. Paused are: {_listed(Pause.objects.all())}.")
        if target.site is not None:
            readiness.resume_site(target.site.pk, held)
        bell.ring()
        _record(actor, Action.JOBS_RESUMED, target, reason)


def _marked(target: Target, *, paused: bool) -> gates.Gates:
    if target.site is None:
        return {}
    held = gates.lock([target.site.pk])
    SiteGate.objects.filter(pk=target.site.pk).update(paused=paused)
    held[target.site.pk].paused = paused
    return held


def _holds(pause: Pause, job_type: str, server_id: int | None, site_id: int | None) -> bool:
    holds: dict[str, Callable[[], bool]] = {
        PauseScope.ALL: lambda: True,
        PauseScope.TYPE: lambda: pause.job_type == job_type,
        PauseScope.SERVER: lambda: server_id is not None and pause.server_id == server_id,
        PauseScope.SITE: lambda: site_id is not None and pause.site_id == site_id,
    }
    return holds[pause.scope]()


def _require_reason(reason: str) -> None:
    if not reason.strip() or len(reason) > MAX_REASON or not reason.isprintable():
        raise Invalid(f"Say why, in one line of at most {MAX_REASON} characters; it is kept and shown.")


def _listed(rows: Iterable[Pause]) -> str:
    return ", ".join(str(row) for row in rows) or "none"


def _record(actor: Actor, action: Action, target: Target, reason: str) -> None:
    tenant = target.site.customer.code if target.site is not None else ""
    entry = trail.Entry(
        action,
        actor.label,
        actor.kind,
        tenant=tenant,
        target=f"pause:{target.name}",
        reason=reason,
        result="done",
    )
    trail.record(entry)
