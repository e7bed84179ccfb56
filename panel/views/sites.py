"""My sites, one site, and backing it up."""

from django.core.exceptions import BadRequest
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from backups.queries import backups_visible_to, last_verified
from jobs import waiting
from jobs.queries import jobs_visible_to
from jobs.request import JobRequest
from panel import offers, overview, wishes
from panel.gate import actor_of, signed_in, site_or_404
from panel.paging import page_of
from sites.models import Site
from sites.queries import sites_visible_to

RECENT = 10
LONGEST_SEARCH = 253


@require_safe
@signed_in
def home(request: HttpRequest) -> HttpResponse:
    """List the sites of the person, with their last recovery point and running work."""
    actor = actor_of(request)
    search = request.GET.get("q", "").strip()[:LONGEST_SEARCH]
    if not search.isprintable():
        raise BadRequest("A domain has no control characters.")
    page = page_of(request, sites_visible_to(actor).filter(_named(search)))
    context = {
        "page": page,
        "lines": overview.lines_of(page.rows),
        "search": search,
        "several_customers": overview.sees_several_customers(actor),
    }
    return render(request, "panel/home.html", context)


@require_safe
@signed_in
def site(request: HttpRequest, site_id: int) -> HttpResponse:
    """Show one site: facts, backups, jobs, and what may be done."""
    actor = actor_of(request)
    shown = site_or_404(actor, site_id)
    backups = list(backups_visible_to(actor).filter(site=shown)[:RECENT])
    jobs = list(jobs_visible_to(actor).filter(site=shown).order_by("-pk")[:RECENT])
    context = {
        "site": shown,
        "last_verified": last_verified(shown),
        "backups": backups,
        "jobs": jobs,
        "waiting": waiting.explain(jobs, actor),
        "offers": offers.offers_on(actor, shown),
        "verifiable": offers.verifiable(backups),
        "restorable": offers.restorable(backups),
        "key": wishes.new_key(),
        "several_customers": overview.sees_several_customers(actor),
    }
    return render(request, "panel/site.html", context)


@require_POST
@signed_in
def back_up(request: HttpRequest, site_id: int) -> HttpResponse:
    """Ask for a backup of the site."""
    actor = actor_of(request)
    shown: Site = site_or_404(actor, site_id)
    payload = {"schedule_type": "MANUAL"}
    wish = JobRequest("BACKUP", shown.pk, payload, idempotency_key=wishes.key_of(request))
    return wishes.submit(request, actor, wish)


def _named(search: str) -> Q:
    """Match the beginning of a domain, as it is written or as it is stored."""
    if not search:
        return Q()
    return Q(domain__istartswith=search) | Q(display_domain__istartswith=search)
