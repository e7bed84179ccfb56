"""Jobs, their events, plans, workers, pauses and policies, for staff. Only pauses and policies are edited."""

from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html, format_html_join

from accounts.actor import system
from accounts.staff_pages import OperatorAdmin, ReadOnlyAdmin, actor_of, link_to, link_to_list
from audit.clock import database_now
from jobs import conflicts, decision_page, events, pauses, policy_changes, registry, waiting
from jobs.job_filters import JobTypeFilter, ReadinessFilter, ServerFilter
from jobs.models import Job, JobEvent, JobPolicy, Pause, Plan, Worker, job_id_of
from jobs.pause_pages import PauseAdmin
from jobs.relations import Related, related_to
from jobs.staff_forms import JobPolicyForm
from jobs.statistics import figures
from jobs.worker import SKEW_WARNING_SECONDS

MOST_EVENTS = 100
LINKED = (
    *("code", "waits_because", "site_link", "customer_link", "server_link", "plan_link", "more", "history"),
    *("parents", "dependents", "called_off_with", "blocked_by_link"),
)
# What is asked first stands first; the claim's token is a secret of the claim and is not shown.
FIELDSETS: tuple[Any, ...] = (
    (
        None,
        {
            "fields": (
                *("code", "job_type", "status", "waits_because", "blocked_by_link", "parents", "dependents"),
                *("called_off_with", "progress_percent", "progress_step"),
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
                *("retry_delays", "timeout_seconds", "stale_seconds", "worker_id", "worker_name", "place"),
                *("epoch", "readiness", "turn", "waiting_since", "brief", "heavy"),
            ),
        },
    ),
)


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """Jobs, newest first, each with why it waits; decided about on a page that asks for the reason."""

    list_display = (
        *("code", "job_type", "site_link", "status", "waits_because"),
        *("priority", "attempt", "requested_by", "created_at"),
    )
    list_select_related = ("site",)
    list_filter = ("status", JobTypeFilter, "priority", ReadinessFilter, ServerFilter)
    search_fields = ("idempotency_key", "site__domain")
    search_help_text = "A whole code (JOB-000241), domain, idempotency key or UUID."
    ordering = ("-pk",)
    sortable_by = ()
    readonly_fields = LINKED
    fieldsets = FIELDSETS
    actions = ("cancel_jobs", "retry_jobs", "resolve_jobs")
    # It would offer to select what is on no page: what is decided about is named, job by job.
    actions_selection_counter = False

    class Media:
        css: ClassVar = {"all": ("jobs_admin.css",)}

    def get_urls(self) -> list[URLPattern]:
        """Add the pages of decisions and of conflicts."""
        wrap = self.admin_site.admin_view
        mine = [
            path("conflicts/", wrap(self.conflicts_view), name="jobs_job_conflicts"),
            path("decide/<str:verb>/", wrap(self.decide_view), name="jobs_job_decide"),
        ]
        return [*mine, *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show how the queue stands above the list."""
        return super().changelist_view(
            request, {**(extra_context or {}), "figures": figures(), "pauses": pauses.in_force().pauses}
        )

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        """Offer what can be decided about the job as it stands."""
        job: Job | None = context.get("original")
        context["decisions"] = decision_page.offers_on(job) if job is not None else []
        return super().render_change_form(request, context, *args, **kwargs)

    def decide_view(self, request: HttpRequest, verb: str) -> HttpResponse:
        """Show the page on which jobs are decided about; the pipeline says who may."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if verb not in decision_page.VERBS:
            raise Http404
        return decision_page.decision_page(request, verb)

    def conflicts_view(self, request: HttpRequest) -> HttpResponse:
        """Show which work waits for which on one site."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        profiles = {name: found.profile for name, found in registry.operations().items()}
        context = {
            **self.admin_site.each_context(request),
            "title": "Which work waits for which on one site",
            "asked": list(profiles),
            "rows": [(name, list(row.values())) for name, row in conflicts.matrix(profiles).items()],
            "opts": self.opts,
        }
        return TemplateResponse(request, "admin/jobs/job/conflicts.html", context)

    @admin.action(description="Cancel …")
    def cancel_jobs(self, request: HttpRequest, jobs: QuerySet[Job]) -> HttpResponse:
        """Go and ask why the chosen jobs are to be called off."""
        return _go_and_ask(request, "cancel")

    @admin.action(description="Retry …")
    def retry_jobs(self, request: HttpRequest, jobs: QuerySet[Job]) -> HttpResponse:
        """Go and ask why the chosen jobs are to be done again."""
        return _go_and_ask(request, "retry")

    @admin.action(description="Resolve …")
    def resolve_jobs(self, request: HttpRequest, jobs: QuerySet[Job]) -> HttpResponse:
        """Go and ask what becomes of the chosen jobs, and why."""
        return _go_and_ask(request, "resolve")

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
        reasons = waiting.explain(jobs, actor_of(request))
        for job in jobs:
            job.waiting_reason = reasons.get(job.pk, "")
        page.result_list = jobs
        return page

    @admin.display(description="waits because")
    def waits_because(self, job: Job) -> str:
        """Say why it is not running."""
        known: str | None = getattr(job, "waiting_reason", None)
        return waiting.explain([job], system("admin")).get(job.pk, "") if known is None else known

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

    @admin.display(description="waits for")
    def parents(self, job: Job) -> str:
        """Link to the jobs that it waits for."""
        return _links(_related(job).parents)

    @admin.display(description="awaited by")
    def dependents(self, job: Job) -> str:
        """Link to the jobs that wait for it."""
        return _links(_related(job).dependents)

    @admin.display(description="called off with")
    def called_off_with(self, job: Job) -> str:
        """Link to the job whose end called it off."""
        return link_to(_related(job).called_off_with)

    @admin.display(description="blocked by")
    def blocked_by_link(self, job: Job) -> str:
        """Link to the job that keeps its site closed."""
        return link_to(Job.objects.filter(pk=job.blocked_by_id).first() if job.blocked_by_id else None)

    @admin.display(description="history")
    def history(self, job: Job) -> str:
        """Show the newest events, each with the time since the one before, and link to all of them."""
        lines = list(events.history(job).reverse()[: MOST_EVENTS + 1])
        spans = [_span(line.at - before.at) for line, before in pairwise(lines)]
        shown = zip(lines[:MOST_EVENTS], [*spans, ""], strict=False)
        rows = (
            (f"{line.at:%Y-%m-%d %H:%M:%S}", span, line.level.lower(), line.event_type, line.message)
            for line, span in shown
        )
        row = '<tr><td>{}</td><td>{}</td><td class="job-{}">{}</td><td>{}</td></tr>'
        return format_html(
            '<table class="job-history">{}</table>{}',
            format_html_join("", row, rows),
            link_to_list(JobEvent, "all events", job__id__exact=job.pk),
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
    """Worker processes, one row per start, with whether they are alive and how far their clock is off."""

    list_display = (
        *("name", "host", "pid", "slots", "is_alive", "clock", "started_at", "polled_at"),
        "stopped_at",
    )
    search_fields = ("name", "host")
    search_help_text = "A whole name or host."
    exclude = ("clock_skew_seconds",)
    readonly_fields = ("is_alive", "clock")

    class Media:
        css: ClassVar = {"all": ("jobs_admin.css",)}

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Find out at once who of the page is alive."""
        page = super().get_changelist_instance(request)
        alive = _alive()
        workers: list[Any] = list(page.result_list)
        for worker in workers:
            worker.found_alive = worker.pk in alive
        page.result_list = workers
        return page

    @admin.display(description="alive", boolean=True)
    def is_alive(self, worker: Worker) -> bool:
        """Say whether it has polled lately."""
        known: bool | None = getattr(worker, "found_alive", None)
        return worker.pk in _alive() if known is None else known

    @admin.display(description="clock skew")
    def clock(self, worker: Worker) -> str:
        """Show its clock minus the database's, marked where it is much."""
        skew = worker.clock_skew_seconds
        if skew is None:
            return "–"
        mark = "job-warning" if abs(skew) > SKEW_WARNING_SECONDS else "job-info"
        return format_html('<span class="{}">{} s</span>', mark, f"{skew:+.1f}")


admin.site.register(Pause, PauseAdmin)


@admin.register(JobPolicy)
class JobPolicyAdmin(OperatorAdmin):
    """Policies: an empty field keeps the declared default."""

    form = JobPolicyForm
    list_display = JobPolicyForm.Meta.fields

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """Keep the type, which the trail uses."""
        return ("job_type",) if obj else ()

    def save_model(self, request: HttpRequest, obj: JobPolicy, form: Any, change: bool) -> None:
        """Add or change the policy."""
        policy_changes.save_job_policy(actor_of(request), obj)


def _go_and_ask(request: HttpRequest, verb: str) -> HttpResponse:
    """Go to the page of decisions with the jobs that were ticked, whatever the list's filters now say."""
    chosen = [int(key) for key in request.POST.getlist(ACTION_CHECKBOX_NAME) if key.isdecimal()]
    return HttpResponseRedirect(decision_page.address_of(verb, chosen))


def _related(job: Any) -> Related:
    """Give what is related to the job of a page; staff sees all of it."""
    known: Related | None = getattr(job, "known_related", None)
    if known is None:
        known = job.known_related = related_to([job], system("admin"))[job.pk]
    return known


def _links(jobs: Iterable[Job]) -> str:
    rows = ((link_to(job), job.job_type, job.get_status_display()) for job in jobs)
    return format_html_join(", ", "{} ({}, {})", rows) or "–"


def _alive() -> set[UUID]:
    return {worker.pk for worker in waiting.live_workers(database_now())}


def _span(passed: timedelta) -> str:
    seconds = passed.total_seconds()
    if seconds < 60:
        return f"+{seconds:.1f} s"
    hours, rest = divmod(int(seconds), 3600)
    minutes, seconds = divmod(rest, 60)
    return f"+{hours} h {minutes} min" if hours else f"+{minutes} min {seconds:.0f} s"


def _uuid_of(term: str) -> UUID | None:
    try:
        return UUID(term)
    except ValueError:
        return None
