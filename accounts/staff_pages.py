"""What the admin pages of all packages share: who acts, links, fast lists, no deletion, refusals told."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html

from accounts.actor import Actor, actor_for
from accounts.exceptions import AccountError

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
    _Paginator = Paginator[Any]
    StaffForm = forms.ModelForm[Any]
    StaffInline = admin.TabularInline[Any, Any]
else:
    # Django's classes take their type parameters in the stubs only.
    _ModelAdmin = admin.ModelAdmin
    _Paginator = Paginator
    StaffForm = forms.ModelForm
    StaffInline = admin.TabularInline

MOST_COUNTED = 5_000


def actor_of(request: HttpRequest) -> Actor:
    """Give who asks."""
    return actor_for(request.user, "admin")


def link_to(row: Model | None) -> str:
    """Give a link to a row's admin page, its name escaped."""
    if row is None:
        return "–"
    address = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
    return format_html('<a href="{}">{}</a>', address, row)


def link_to_list(model: type[Model], text: str, **wanted: object) -> str:
    """Give a link to a list of a model's rows, filtered by the lookups in `wanted`."""
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    query = "&".join(f"{name}={value}" for name, value in wanted.items())
    return format_html('<a href="{}?{}">{}</a>', address, query, text)


class CappedPaginator(_Paginator):
    """Counts to MOST_COUNTED and no further; older rows are reached by search and filters."""

    @cached_property
    def count(self) -> int:
        """How many rows can be paged through."""
        found = self.object_list[: MOST_COUNTED + 1]
        counted = found.count() if isinstance(found, QuerySet) else len(found)
        return min(counted, MOST_COUNTED)


class StaffAdmin(_ModelAdmin):
    """A list that stays fast, whose rows nobody deletes, and which tells refusals as messages.

    Search takes whole terms: `search_fields` are compared by equality unless `matching` says otherwise.
    """

    show_full_result_count = False
    paginator = CappedPaginator
    list_per_page = 50
    list_max_show_all = 50
    # Counting the rows of each filter would read the whole table.
    show_facets = admin.ShowFacets.NEVER

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody deletes what the trail refers to."""
        return False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """List rows; an address with values that no database takes gives the whole list, and says so."""
        if any(_is_odd(value) for name, values in request.GET.lists() if name != "q" for value in values):
            self.message_user(request, "Nothing can be like that; this is the whole list.", messages.WARNING)
            return HttpResponseRedirect(request.path)
        return super().changelist_view(request, extra_context)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search by the whole term."""
        term = search_term.strip()
        return (queryset.filter(self.matching(term)) if term and "\0" not in term else queryset), False

    def matching(self, term: str) -> Q:
        """Give the condition for a search term."""
        found = Q(pk__in=[])
        for name in self.search_fields:
            found |= Q(**{str(name): term})
        return found

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the form; a refusal of the owning package rolls back and is shown above it."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except self.refusals() as refusal:
            self.message_user(request, _sentence(refusal), messages.ERROR)
            return HttpResponseRedirect(request.path)

    def refusals(self) -> tuple[type[Exception], ...]:
        """Give the exceptions by which the owning package says no."""
        return (AccountError, ValidationError)


class OperatorAdmin(StaffAdmin):
    """Rows that staff with the right to operate may add and change."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Who may operate adds."""
        return super().has_add_permission(request) and actor_of(request).may_operate

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Who may operate changes."""
        return super().has_change_permission(request, obj) and actor_of(request).may_operate


class ReadOnlyAdmin(StaffAdmin):
    """Rows that are looked at and never written by a person."""

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody adds."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody changes."""
        return False


def _is_odd(value: str) -> bool:
    """Whether no database takes it as a text, or as a number."""
    is_number = value.isascii() and value.removeprefix("-").isdecimal()
    return "\0" in value or (is_number and not -(2**63) <= int(value[:40]) < 2**63)


def _sentence(refusal: Exception) -> str:
    return " ".join(refusal.messages) if isinstance(refusal, ValidationError) else str(refusal)
