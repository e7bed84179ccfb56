"""Pauses in the admin: looked at, added to pause, deleted to resume; each with a reason."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html

from accounts.exceptions import AccountError
from accounts.staff_pages import OperatorAdmin, actor_of
from jobs import pauses
from jobs.exceptions import JobError
from jobs.models import Pause, PauseScope
from jobs.pauses import Target
from jobs.staff_forms import PauseForm, ReasonForm


class PauseAdmin(OperatorAdmin):
    """What is held back, by whom and why. Added to pause, deleted to resume; never changed."""

    form = PauseForm
    list_display = ("__str__", "paused_by", "since", "reason", "resume_link")
    list_select_related = ("server", "site")
    autocomplete_fields = ("server", "site")
    actions = None

    def get_fields(self, request: HttpRequest, obj: Pause | None = None) -> Any:
        """Show who and since when, of a pause that is there."""
        return (*PauseForm.Meta.fields, "paused_by", "since") if obj else PauseForm.Meta.fields

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody changes a pause: its reason was given for what it holds back."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Who may operate resumes: the trail keeps who paused what."""
        return request.user.has_perm("jobs.delete_pause") and actor_of(request).may_operate

    def save_model(self, request: HttpRequest, obj: Pause, form: Any, change: bool) -> None:
        """Pause."""
        obj.pk = pauses.pause(actor_of(request), form.target(), form.cleaned_data["reason"]).pk

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Ask why the work is to go on; by POST, resume."""
        found = self.get_object(request, unquote(object_id))
        if found is None:
            raise Http404
        if not self.has_delete_permission(request, found):
            raise PermissionDenied
        form = ReasonForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            return self._resume(request, found, form.cleaned_data["reason"])
        context = {
            **self.admin_site.each_context(request),
            "title": "Resume",
            "pause": found,
            "form": form,
            "opts": self.opts,
        }
        return TemplateResponse(request, "admin/jobs/pause/resume.html", context)

    def _resume(self, request: HttpRequest, found: Pause, reason: str) -> HttpResponse:
        target = Target(PauseScope(found.scope), found.job_type, found.server, found.site)
        try:
            pauses.resume(actor_of(request), target, reason)
        except self.refusals() as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
        else:
            self.message_user(request, f"Resumed: {target}.")
        return HttpResponseRedirect(reverse("admin:jobs_pause_changelist"))

    def refusals(self) -> tuple[type[Exception], ...]:
        """Add those of the engine."""
        return (*super().refusals(), AccountError, JobError)

    @admin.display(description="")
    def resume_link(self, pause: Pause) -> str:
        """Link to the page that asks why the work is to go on."""
        return format_html('<a href="{}">Resume …</a>', reverse("admin:jobs_pause_delete", args=[pause.pk]))
