"""Backups across sites; restoring from one, and reading one back."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actor import Actor
from backups.models import Backup, Integrity
from backups.queries import backups_visible_to
from jobs import pipeline
from jobs.exceptions import Refused
from jobs.request import JobRequest
from panel import overview, wishes
from panel.gate import actor_of, backup_or_404, signed_in
from panel.paging import choice_in, number_in, page_of


@require_safe
@signed_in
def backups(request: HttpRequest) -> HttpResponse:
    """List the backups of the person's sites, newest first, of one integrity or site where asked."""
    actor = actor_of(request)
    integrity = choice_in(request, "integrity", Integrity.choices)
    site_id = number_in(request, "site")
    wanted = {"integrity": integrity, "site_id": site_id}
    found = backups_visible_to(actor).filter(**{name: value for name, value in wanted.items() if value})
    context = {
        "page": page_of(request, found),
        "integrities": Integrity.choices,
        "integrity": integrity,
        "site_id": site_id,
        "several_customers": overview.sees_several_customers(actor),
    }
    return render(request, "panel/backups.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def restore(request: HttpRequest, code: str) -> HttpResponse:
    """Show what a restore would do; by POST, ask for it."""
    actor = actor_of(request)
    backup = backup_or_404(actor, code)
    if request.method == "POST":
        return wishes.submit(request, actor, _restore_of(backup, request))
    return _preview(request, actor, backup)


@require_POST
@signed_in
def verify(request: HttpRequest, code: str) -> HttpResponse:
    """Ask for a backup to be read back."""
    actor = actor_of(request)
    backup = backup_or_404(actor, code)
    payload = {"backup": backup.code, "deep": False}
    wish = JobRequest("VERIFY", backup.site_id, payload, idempotency_key=wishes.key_of(request))
    return wishes.submit(request, actor, wish)


def _preview(request: HttpRequest, actor: Actor, backup: Backup) -> HttpResponse:
    try:
        preview = pipeline.preview(actor, _restore_of(backup, request))
    except Refused as refusal:
        return wishes.refused(request, refusal, backup.site_id)
    context = {
        "backup": backup,
        "site": preview.site,
        "steps": preview.intention.steps,
        "key": wishes.new_key(),
    }
    return render(request, "panel/restore.html", context)


def _restore_of(backup: Backup, request: HttpRequest) -> JobRequest:
    return JobRequest(
        "RESTORE",
        backup.site_id,
        {"backup": backup.code},
        idempotency_key=wishes.key_of(request),
        reason=request.POST.get("reason", "").strip(),
    )
