"""The trail in the admin: to read, never to write."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from django.contrib import admin
from django.core.paginator import Paginator
from django.db import models
from django.http import HttpRequest
from django.utils.functional import cached_property

from audit.actions import Action
from audit.models import AuditEntry, AuditHead

if TYPE_CHECKING:
    _Paginator = Paginator[AuditEntry]
    _ModelAdmin = admin.ModelAdmin[models.Model]
else:
    # Django's classes take their type parameters in the stubs only.
    _Paginator, _ModelAdmin = Paginator, admin.ModelAdmin

MOST_COUNTED = 5_000


class CappedPaginator(_Paginator):
    """Counts to MOST_COUNTED and no further; older entries are reached by search and filters."""

    @cached_property
    def count(self) -> int:
        """How many entries can be paged through."""
        found = self.object_list[: MOST_COUNTED + 1]
        counted = found.count() if isinstance(found, models.QuerySet) else len(found)
        return min(counted, MOST_COUNTED)


class ActionFilter(admin.SimpleListFilter):
    """Entries of one action."""

    title = "action"
    parameter_name = "action"

    def lookups(self, request: HttpRequest, model_admin: object) -> Iterable[tuple[str, str]]:
        """Give the known actions."""
        return Action.choices

    def queryset(
        self, request: HttpRequest, queryset: models.QuerySet[AuditEntry]
    ) -> models.QuerySet[AuditEntry]:
        """Give the entries of the chosen action."""
        return queryset.filter(action=self.value()) if self.value() else queryset


class ReadOnlyAdmin(_ModelAdmin):
    """Shows rows that nobody may add, change or delete here."""

    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Nobody changes."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Nobody deletes."""
        return False


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """The entries, newest first; search takes a whole sequence number, actor, tenant or target."""

    list_display = ("sequence", "at", "actor", "tenant", "act", "target", "result")
    list_filter: ClassVar = [ActionFilter]
    search_fields = ("sequence", "actor", "tenant", "target")
    search_help_text = "A whole sequence number, actor, tenant or target."
    ordering = ("-sequence",)
    sortable_by = ()
    list_per_page = 100
    list_max_show_all = 100
    show_full_result_count = False
    paginator = CappedPaginator

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[models.Model], search_term: str
    ) -> tuple[models.QuerySet[models.Model], bool]:
        """Search by the whole term, which may hold spaces as an actor's name does."""
        term = search_term.strip()
        if not term:
            return queryset, False
        found = models.Q(actor=term) | models.Q(tenant=term) | models.Q(target=term)
        if term.isascii() and term.isdecimal() and len(term) < 19:
            found |= models.Q(sequence=int(term))
        return queryset.filter(found), False


@admin.register(AuditHead)
class AuditHeadAdmin(ReadOnlyAdmin):
    """Where the chain ends."""

    list_display = ("sequence", "mac")
