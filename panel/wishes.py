"""From a form to the pipeline and back: what was asked for, and what the person is told."""

from uuid import uuid4

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect

from accounts.actor import Actor
from jobs import pipeline
from jobs.exceptions import ApprovalRequired, Forbidden, InvalidPayload, NotVisible, Refused, UnknownOperation
from jobs.request import JobRequest


def new_key() -> str:
    """Give an idempotency key for the forms of one page: sent twice, they make one job."""
    return uuid4().hex


def key_of(request: HttpRequest) -> str:
    """Give the key that came with a form, empty if none did."""
    return request.POST.get("key", "")


def submit(request: HttpRequest, actor: Actor, wish: JobRequest) -> HttpResponse:
    """Ask the pipeline for a job and go to its page. A refusal is answered by `refused`."""
    try:
        submission = pipeline.submit(actor, wish)
    except Refused as refusal:
        return refused(request, refusal, wish.site_id)
    job = submission.job
    # No word of its state: the page shows that, and goes on showing it when it has changed.
    if submission.created:
        messages.success(request, f"You asked for {job.code}.")
    else:
        messages.info(request, f"This was asked for already: {job.code}.")
    return redirect("panel:job", job.code)


def refused(request: HttpRequest, refusal: Refused, site_id: int) -> HttpResponse:
    """Say why not: on the site's page where the moment is wrong, else by 400, 403 or 404."""
    if isinstance(refusal, NotVisible):
        raise Http404 from refusal
    if isinstance(refusal, Forbidden | ApprovalRequired):
        raise PermissionDenied(str(refusal)) from refusal
    if isinstance(refusal, InvalidPayload | UnknownOperation):
        raise BadRequest(str(refusal)) from refusal
    messages.error(request, str(refusal))
    return redirect("panel:site", site_id)
