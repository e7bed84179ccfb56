"""What a list of sites tells besides the sites: recovery points and unfinished work."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db.models import OuterRef, Subquery

from accounts.actor import Actor, ActorKind
from backups.models import Backup, Fate, Integrity
from jobs.models import Job
from jobs.states import CLOSING, Status
from sites.models import Site
from sites.queries import visible_customers

# More unfinished work than this on one page of sites is not told apart; the jobs page lists it all.
MOST_JOBS = 200


@dataclass(frozen=True)
class SiteLine:
    """One site of a list, with its newest recovery point and its unfinished work."""

    site: Site
    last_verified: Backup | None
    work: list[Job] = field(default_factory=list)


def lines_of(sites: list[Site]) -> list[SiteLine]:
    """Give the lines of a page of sites. Three queries."""
    verified = _last_verified_of(sites)
    work = _work_on(sites)
    return [SiteLine(site, verified.get(site.pk), work.get(site.pk, [])) for site in sites]


def sees_several_customers(actor: Actor) -> bool:
    """Say whether lists must name the customer of each row. One query, for customers' people only."""
    if actor.kind is not ActorKind.CUSTOMER:
        return True
    return len(visible_customers(actor).values("pk")[:2]) > 1


def _last_verified_of(sites: Iterable[Site]) -> dict[int, Backup]:
    counting = Backup.objects.filter(site=OuterRef("pk"), integrity=Integrity.VERIFIED)
    newest = counting.exclude(fate=Fate.DELETED).order_by("-created_at", "-pk").values("pk")[:1]
    rows = Site.objects.filter(pk__in=[site.pk for site in sites]).annotate(newest=Subquery(newest))
    keys = list(rows.order_by().values_list("newest", flat=True))
    return {backup.site_id: backup for backup in Backup.objects.filter(pk__in=[key for key in keys if key])}


def _work_on(sites: Iterable[Site]) -> dict[int, list[Job]]:
    keys = [site.pk for site in sites]
    unfinished = Job.objects.filter(site__in=keys, status__in=(Status.QUEUED, *CLOSING))
    work: dict[int, list[Job]] = {}
    for job in unfinished.order_by("-pk")[:MOST_JOBS]:
        if job.site_id is not None:
            work.setdefault(job.site_id, []).append(job)
    return work
