"""The filters of the admin's list of jobs: each reads along an index, and none counts the table."""

from collections.abc import Iterable

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from jobs import registry
from jobs.models import Job
from jobs.states import Readiness, Status
from sites.models import Server


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


class ReadinessFilter(admin.SimpleListFilter):
    """Queued jobs that are ready, or wait for one kind of thing; read along the index of states."""

    title = "readiness"
    parameter_name = "readiness"

    def lookups(self, request: HttpRequest, model_admin: object) -> Iterable[tuple[str, str]]:
        """Give the kinds."""
        return [(kind.value, kind.label) for kind in Readiness if kind.value]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        """Give the queued jobs of the chosen kind."""
        wanted = self.value()
        return queryset.filter(status=Status.QUEUED, readiness=wanted) if wanted else queryset


class ServerFilter(admin.SimpleListFilter):
    """Jobs on one server."""

    title = "server"
    parameter_name = "server"

    def lookups(self, request: HttpRequest, model_admin: object) -> Iterable[tuple[str, str]]:
        """Give the servers."""
        return [(str(server.pk), server.name) for server in Server.objects.all()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        """Give the jobs on the chosen server."""
        chosen = self.value() or ""
        is_key = chosen.isascii() and chosen.isdecimal() and int(chosen) < 2**63
        return queryset.filter(server_id=int(chosen)) if is_key else queryset
