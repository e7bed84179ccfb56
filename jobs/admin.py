"""Jobs, their events, plans, workers and policies, for staff. Only policies are edited here."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join

from accounts.staff_pages import OperatorAdmin, ReadOnlyAdmin, StaffForm, actor_of, link_to, link_to_list
from jobs import events, policy_changes, registry, waiting
from jobs.models import Job, JobEvent, JobPolicy, Plan, Worker, job_id_of

MOST_EVENTS = 100
LINKED = (
    "code",
    "waits_because",
    "site_link",
    "customer_link",
    "server_link",
    "plan_link",
    "more",
    "history",
)
# What is asked first stands first; the claim's token is a secret of the claim and is not shown.
FIELDSETS: tuple[Any, ...] = (
    (
        None,
        {
            "fields": (
                *("code", "job_type", "status", "waits_because", "progress_percent", "progress_step"),
                *("error_code", "error_message", "result", "more"),
            )
        },
    ),
    ("Where", {"fields": ("site_link", "customer_link", "server_link", "plan_link")}),
    ("Who and why", {"fields": ("requested_by", "requested_kind", "reason", "payload", "idempotency_key")}),
    (
        "When",
        {
            "fields": (
                *("created_at", "scheduled_at", "started_at", "heartbeat_at"),
                *("deadline_at", "completed_at"),
            )
        },
    ),
    ("History", {"fields": ("history",)}),
    (
        "Policy and claim",
        {
            "classes": ("collapse",),
            "fields": (
                *("uuid", "category", "priority", "lock", "mutating", "on_lost", "attempt", "max_attempts"),
                *("retry_delays", "timeout_seconds", "stale_seconds", "worker_id", "worker_name", "epoch"),
            ),
        },
    ),
)


class JobTypeFilter(admin.SimpleListFilter):
    """Jobs of one installed type; the table is not asked which types it holds."""

    title = "type"
    parameter_name = "job_type"

    def lookups(self, request: HttpRequest, model_admin: object) -> Iterable[tuple[str, str]]:
        """Give the installed types."""
        return [(name, name) for name in registry.known_types()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        """Give the jobs of the chosen type."""
        return queryset.filter(job_type=self.value()) if self.value() else queryset


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """Jobs, newest first, each with why it waits."""

    list_display = (
        "code",
        "job_type",
        "status",
        "waits_because",
        "site_link",
        "priority",
        "attempt",
        "requested_by",
        "created_at",
    )
    list_select_related = ("site",)
    list_filter = ("status", JobTypeFilter, "priority")
    search_fields = ("idempotency_key", "site__domain")
    search_help_text = "A whole code (JOB-000241), domain, idempotency key or UUID."
    ordering = ("-pk",)
    sortable_by = ()
    readonly_fields = LINKED
    fieldsets = FIELDSETS

    def matching(self, term: str) -> Q:
        """Search by code and UUID besides."""
        found = super().matching(term)
        if (key := job_id_of(term)) is not None:
            found |= Q(pk=key)
        if (uuid := _uuid_of(term)) is not None:
            found |= Q(uuid=uuid)
        return found

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Work out the waiting reasons of the page at once."""
        page = super().get_changelist_instance(request)
        jobs: list[Any] = list(page.result_list)
        reasons = waiting.explain(jobs)
        for job in jobs:
            job.waiting_reason = reasons.get(job.pk, "")
        page.result_list = jobs
        return page

    @admin.display(description="waits because")
    def waits_because(self, job: Job) -> str:
        """Say why it is not running."""
        known: str | None = getattr(job, "waiting_reason", None)
        return waiting.explain([job]).get(job.pk, "") if known is None else known

    @admin.display(description="site")
    def site_link(self, job: Job) -> str:
        """Link to the site."""
        return link_to(job.site)

    @admin.display(description="customer")
    def customer_link(self, job: Job) -> str:
        """Link to the customer."""
        return link_to(job.customer)

    @admin.display(description="server")
    def server_link(self, job: Job) -> str:
        """Link to the server."""
        return link_to(job.server)

    @admin.display(description="plan")
    def plan_link(self, job: Job) -> str:
        """Link to the approved plan."""
        return link_to(job.plan)

    @admin.display(description="made")
    def more(self, job: Job) -> str:
        """Link to the backups that it made."""
        made = [link_to(backup) for backup in job.backups.order_by("pk")[:MOST_EVENTS]]
        return format_html_join(", ", "{}", ((link,) for link in made)) or "–"

    @admin.display(description="history")
    def history(self, job: Job) -> str:
        """Show the newest events, and link to all of them."""
        lines = events.history(job).reverse()[:MOST_EVENTS]
        rows = ((f"{line.at:%Y-%m-%d %H:%M:%S}", line.event_type, line.message) for line in lines)
        table = format_html_join("", "<tr><td>{}</td><td>{}</td><td>{}</td></tr>", rows)
        return format_html(
            "<table>{}</table>{}", table, link_to_list(JobEvent, "all events", job__id__exact=job.pk)
        )


@admin.register(JobEvent)
class JobEventAdmin(ReadOnlyAdmin):
    """Events of all jobs, newest first."""

    list_display = ("at", "job_link", "event_type", "level", "message")
    list_select_related = ("job",)
    list_filter = ("event_type", "level")
    search_fields = ("job__idempotency_key",)
    search_help_text = "A whole job code (JOB-000241) or idempotency key."
    ordering = ("-pk",)
    sortable_by = ()
    exclude = ("job",)
    readonly_fields = ("job_link",)

    def matching(self, term: str) -> Q:
        """Search by the job's code besides."""
        key = job_id_of(term)
        return super().matching(term) if key is None else Q(job_id=key)

    @admin.display(description="job")
    def job_link(self, event: JobEvent) -> str:
        """Link to the job."""
        return link_to(event.job)


@admin.register(Plan)
class PlanAdmin(ReadOnlyAdmin):
    """Plans, with who approved them and until when they hold."""

    list_display = ("code", "kind", "state", "site_link", "created_by", "approved_by", "expires_at")
    list_select_related = ("site",)
    list_filter = ("state", "kind")
    search_fields = ("site__domain", "digest")
    search_help_text = "A whole domain or digest."
    exclude = ("site", "approved_by_user")
    readonly_fields = ("code", "site_link")

    @admin.display(description="site")
    def site_link(self, plan: Plan) -> str:
        """Link to the site."""
        return link_to(plan.site)


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Worker processes, one row per start."""

    list_display = ("name", "host", "pid", "slots", "started_at", "polled_at", "stopped_at")
    search_fields = ("name", "host")
    search_help_text = "A whole name or host."


class JobPolicyForm(StaffForm):
    """What differs from a type's declared defaults."""

    class Meta:
        model = JobPolicy
        fields = ("job_type", "priority", "max_attempts", "retry_delays", "timeout_seconds", "concurrency")

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if not self.errors:
            try:
                policy_changes.require_bounds(self.instance)
            except ValidationError as error:
                self.add_error(None, error)


@admin.register(JobPolicy)
class JobPolicyAdmin(OperatorAdmin):
    """Policies: an empty field keeps the declared default."""

    form = JobPolicyForm
    list_display = ("job_type", "priority", "max_attempts", "retry_delays", "timeout_seconds", "concurrency")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """Keep the type, which the trail uses."""
        return ("job_type",) if obj else ()

    def save_model(self, request: HttpRequest, obj: JobPolicy, form: Any, change: bool) -> None:
        """Add or change the policy."""
        policy_changes.save_job_policy(actor_of(request), obj)


def _uuid_of(term: str) -> UUID | None:
    try:
        return UUID(term)
    except ValueError:
        return None
