"""The admin's page on which staff decides about jobs: it asks for the reason, then decides each by itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from accounts.actor import Actor
from accounts.staff_pages import actor_of
from jobs import pipeline, waiting
from jobs.evidence import Decision, Evidence, evidence, options
from jobs.exceptions import Refused
from jobs.models import Job
from jobs.queries import jobs_visible_to
from jobs.staff_forms import ReasonForm, ResolveForm
from jobs.states import Status

MOST_JOBS = 100
# Each may keep the page waiting for its agent.
MOST_EVIDENCE = 5


@dataclass(frozen=True)
class Verb:
    """One kind of decision: how it is called, its form, and which jobs can be decided so."""

    title: str
    button: str
    form: type[ReasonForm]
    fits: Callable[[Job], bool]
    decide: Callable[[Actor, Job, dict[str, Any]], Job]


def _cancel(actor: Actor, job: Job, values: dict[str, Any]) -> Job:
    return pipeline.cancel(actor, job.pk, values["reason"])


def _retry(actor: Actor, job: Job, values: dict[str, Any]) -> Job:
    return pipeline.retry(actor, job.pk, values["reason"])


def _resolve(actor: Actor, job: Job, values: dict[str, Any]) -> Job:
    if values["outcome"] == Decision.RETRY:
        return _retry(actor, job, values)
    return pipeline.resolve(actor, job.pk, Status(values["outcome"]), values["reason"])


def _is_cancellable(job: Job) -> bool:
    return job.status in (Status.QUEUED, Status.RUNNING)


def _is_retryable(job: Job) -> bool:
    return any(option.decision == Decision.RETRY for option in options(job))


VERBS: dict[str, Verb] = {
    "cancel": Verb("Call jobs off", "Cancel", ReasonForm, _is_cancellable, _cancel),
    "retry": Verb("Do jobs again", "Retry", ReasonForm, _is_retryable, _retry),
    "resolve": Verb("Resolve jobs", "Resolve", ResolveForm, lambda job: bool(options(job)), _resolve),
}


def address_of(verb: str, keys: list[int]) -> str:
    """Give the address of the page for some jobs."""
    query = urlencode([("job", key) for key in keys])
    return f"{reverse('admin:jobs_job_decide', args=[verb])}?{query}"


def offers_on(job: Job) -> list[tuple[str, str]]:
    """Give button and address of each decision that fits a job as it stands. A hint: the pipeline decides."""
    return [(verb.button, address_of(name, [job.pk])) for name, verb in VERBS.items() if verb.fits(job)]


def decision_page(request: HttpRequest, verb: str) -> HttpResponse:
    """Ask for the reason; by POST, decide each of the jobs named in the address and tell what came of it."""
    chosen = VERBS[verb]
    jobs = _chosen(request)
    if not jobs:
        messages.warning(request, "No job was chosen, so nothing was done.")
        return HttpResponseRedirect(reverse("admin:jobs_job_changelist"))
    form = chosen.form(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        return _decide(request, chosen, jobs, form.cleaned_data)
    context = {
        **admin.site.each_context(request),
        "title": chosen.title,
        "verb": chosen,
        "form": form,
        "lines": [(job, reason_why(job, actor_of(request))) for job in jobs],
        "evidence": _evidence(jobs) if verb == "resolve" else [],
        "opts": Job._meta,
    }
    return TemplateResponse(request, "admin/jobs/job/decide.html", context)


def reason_why(job: Job, actor: Actor) -> str:
    """Say what is known of why a job stands as it stands."""
    return waiting.explain([job], actor).get(job.pk) or job.error_message


def _chosen(request: HttpRequest) -> list[Job]:
    named = [int(text) for text in request.GET.getlist("job") if text.isascii() and text.isdecimal()]
    keys = [key for key in named[:MOST_JOBS] if key < 2**63]
    return list(jobs_visible_to(actor_of(request)).filter(pk__in=keys).order_by("pk"))


def _evidence(jobs: list[Job]) -> list[Evidence]:
    lost = [job for job in jobs if job.status == Status.ORPHANED]
    return [evidence(job) for job in lost[:MOST_EVIDENCE]]


def _decide(request: HttpRequest, verb: Verb, jobs: list[Job], values: dict[str, Any]) -> HttpResponse:
    for job in jobs:
        try:
            changed = verb.decide(actor_of(request), job, values)
        except Refused as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, f"{job.code}: {changed.get_status_display()}.")
    if len(jobs) == 1:
        return HttpResponseRedirect(reverse("admin:jobs_job_change", args=[jobs[0].pk]))
    return HttpResponseRedirect(reverse("admin:jobs_job_changelist"))
