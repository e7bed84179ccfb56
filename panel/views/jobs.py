"""Jobs across sites, one job with its live progress, calling it off and having it done again."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from accounts.actor import Actor
from jobs import events, pipeline, waiting
from jobs.exceptions import Invalid, Refused, UnknownOperation, WrongState
from jobs.models import Job, JobEvent
from jobs.queries import jobs_visible_to
from jobs.relations import related_to
from jobs.states import ENDED, SENTENCES, Status
from panel import overview, results, wishes
from panel.gate import actor_of, job_or_404, signed_in
from panel.offers import may_cancel, may_retry
from panel.paging import choice_in, number_in, page_of

MOST_EVENTS = 100
Decide = Callable[[Actor, int, str], Job]


@require_safe
@signed_in
def jobs(request: HttpRequest) -> HttpResponse:
    """List the jobs of the person's sites, newest first, of one status or site where asked."""
    actor = actor_of(request)
    status = choice_in(request, "status", Status.choices)
    site_id = number_in(request, "site")
    wanted = {"status": status, "site_id": site_id}
    found = jobs_visible_to(actor).filter(**{name: value for name, value in wanted.items() if value})
    page = page_of(request, found)
    context = {
        "page": page,
        "waiting": waiting.explain(page.rows, actor),
        "statuses": Status.choices,
        "status": status,
        "site_id": site_id,
        "several_customers": overview.sees_several_customers(actor),
    }
    return render(request, "panel/jobs.html", context)


@require_safe
@signed_in
def job(request: HttpRequest, code: str) -> HttpResponse:
    """Show one job."""
    actor = actor_of(request)
    return render(request, "panel/job.html", _progress(actor, job_or_404(actor, code)))


@require_safe
@signed_in
def job_progress(request: HttpRequest, code: str) -> HttpResponse:
    """Show the part of a job's page that changes; the page itself includes it."""
    actor = actor_of(request)
    context = _progress(actor, job_or_404(actor, code))
    return render(request, "panel/_job_progress.html", {**context, "swapping": True})


@require_POST
@signed_in
def cancel(request: HttpRequest, code: str) -> HttpResponse:
    """Call a job off, for a reason."""
    return _decide(request, code, pipeline.cancel, "You called {} off.")


@require_POST
@signed_in
def retry(request: HttpRequest, code: str) -> HttpResponse:
    """Have a failed job done again, for a reason."""
    return _decide(request, code, pipeline.retry, "You asked for {} again.")


def _decide(request: HttpRequest, code: str, decide: Decide, said: str) -> HttpResponse:
    """Decide about a job and go back to its page, which shows what has become of it."""
    actor = actor_of(request)
    shown = job_or_404(actor, code)
    try:
        decide(actor, shown.pk, request.POST.get("reason", "").strip())
    except (Invalid, UnknownOperation, WrongState) as refusal:
        messages.error(request, str(refusal))
    except Refused as refusal:
        return wishes.refused(request, refusal, shown.site_id or 0)
    else:
        messages.success(request, said.format(shown.code))
    return redirect("panel:job", shown.code)


def _progress(actor: Actor, shown: Job) -> dict[str, Any]:
    lines, earlier = _newest(shown)
    return {
        "job": shown,
        "sentence": SENTENCES[Status(shown.status)],
        "waiting_reason": waiting.explain([shown], actor).get(shown.pk, ""),
        "events": lines,
        "has_earlier_events": earlier,
        "facts": results.facts_of(shown),
        "is_live": shown.status not in ENDED,
        "related": related_to([shown], actor)[shown.pk],
        "may_cancel": may_cancel(actor, shown),
        "may_retry": may_retry(actor, shown),
    }


def _newest(shown: Job) -> tuple[list[JobEvent], bool]:
    """Give the last events, newest first, and whether there are earlier ones."""
    found = list(events.history(shown).reverse()[: MOST_EVENTS + 1])
    return found[:MOST_EVENTS], len(found) > MOST_EVENTS
