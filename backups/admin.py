"""Backups, for staff: to look at and to verify."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat

from accounts.staff_pages import ReadOnlyAdmin, actor_of, link_to
from backups.models import Backup
from jobs import pipeline
from jobs.exceptions import Refused
from jobs.request import JobRequest


@admin.register(Backup)
class BackupAdmin(ReadOnlyAdmin):
    """Artifacts, newest first."""

    list_display = (
        "code",
        "site_link",
        "integrity",
        "fate",
        "schedule_type",
        "size",
        "created_at",
        "job_link",
    )
    list_select_related = ("site", "job")
    list_filter = ("integrity", "fate", "schedule_type")
    search_fields = ("code", "site__domain")
    search_help_text = "A whole code or domain."
    ordering = ("-pk",)
    exclude = ("site", "job", "size_bytes")
    readonly_fields = ("site_link", "job_link", "size")
    actions = ("verify",)

    @admin.action(description="Verify")
    def verify(self, request: HttpRequest, backups: QuerySet[Backup]) -> None:
        """Ask for each chosen backup to be read back."""
        for backup in backups.order_by("pk"):
            wish = JobRequest("VERIFY", backup.site_id, {"backup": backup.code, "deep": False})
            try:
                job = pipeline.submit(actor_of(request), wish).job
            except Refused as refusal:
                self.message_user(request, f"{backup.code}: {refusal}", messages.ERROR)
            else:
                self.message_user(request, f"{backup.code}: {job.code} is queued.", messages.SUCCESS)

    @admin.display(description="site")
    def site_link(self, backup: Backup) -> str:
        """Link to the site."""
        return link_to(backup.site)

    @admin.display(description="job")
    def job_link(self, backup: Backup) -> str:
        """Link to the job that made it."""
        return link_to(backup.job)

    @admin.display(description="size", ordering="size_bytes")
    def size(self, backup: Backup) -> str:
        """Say how large it is."""
        return filesizeformat(backup.size_bytes)
