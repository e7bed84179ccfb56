"""Servers and sites, for staff."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest

from accounts.exceptions import AccountError
from accounts.staff_pages import OperatorAdmin, StaffForm, actor_of, link_to, link_to_list
from backups.models import Backup
from backups.queries import last_verified
from jobs import pipeline
from jobs.exceptions import Refused
from jobs.models import Job
from jobs.request import JobRequest
from sites import inventory
from sites.capabilities import PRESETS, Capability
from sites.exceptions import SiteError
from sites.models import Server, Site
from sites.names import InvalidDomain, normalise_domain

SHOWN = (
    "domain",
    "display_domain",
    "state",
    "customer_link",
    "server_link",
    "created_at",
    "last_verified_backup",
    "more",
)


class NewSiteForm(StaffForm):
    """A site to be added."""

    preset = forms.ChoiceField(choices=[(name, name) for name in PRESETS], initial="FULL")

    class Meta:
        model = Site
        fields = ("customer", "server", "domain")

    def clean_domain(self) -> str:
        """Say at the field what is wrong with a name; all rules are checked again when it is added."""
        try:
            return normalise_domain(self.cleaned_data["domain"], allow_test=True).ascii
        except InvalidDomain as error:
            raise ValidationError(str(error)) from error


class SiteForm(StaffForm):
    """What may be done to a site that is there."""

    capabilities = forms.MultipleChoiceField(
        choices=[(name.value, name.value.lower()) for name in Capability],
        widget=forms.CheckboxSelectMultiple,
        required=False,
    )

    class Meta:
        model = Site
        fields = ("capabilities",)


@admin.register(Server)
class ServerAdmin(OperatorAdmin):
    """Machines with an agent: added here or by hosting-register-server, not changed afterwards."""

    list_display = ("name", "transport", "agent_socket", "web_address", "store", "created_at")
    search_fields = ("name",)

    def matching(self, term: str) -> Q:
        """Search by the beginning, so that fields of other pages can be filled by typing."""
        return Q(name__istartswith=term)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody changes a server under its sites."""
        return False

    def save_model(self, request: HttpRequest, obj: Server, form: Any, change: bool) -> None:
        """Add the server."""
        inventory.add_server(actor_of(request), obj)

    def refusals(self) -> tuple[type[Exception], ...]:
        """Add those of the inventory."""
        return (*super().refusals(), SiteError)


@admin.register(Site)
class SiteAdmin(OperatorAdmin):
    """Sites: added in state PROVISIONING, made real by the action; capabilities can be changed."""

    list_display = ("__str__", "state", "customer_link", "server_link", "preset", "created_at")
    list_select_related = ("customer", "server")
    list_filter = ("state",)
    search_fields = ("domain", "display_domain", "customer__code")
    search_help_text = "A whole domain or a customer's code."
    ordering = ("-pk",)
    autocomplete_fields = ("customer", "server")
    actions = ("provision", "back_up_now")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Ask for other things when a site is added than when it is there."""
        return super().get_form(request, obj, change, form=SiteForm if obj else NewSiteForm, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """List what is shown."""
        return (*SHOWN, "capabilities") if obj else ("customer", "server", "domain", "preset")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Leave only the capabilities to be changed."""
        return SHOWN if obj else ()

    def save_model(self, request: HttpRequest, obj: Site, form: Any, change: bool) -> None:
        """Add the site, or change its capabilities."""
        actor = actor_of(request)
        if change:
            stored = Site.objects.select_related("customer").get(pk=obj.pk)
            inventory.set_capabilities(actor, stored, form.cleaned_data["capabilities"])
            return
        made = inventory.add_site(actor, obj.customer, obj.server, obj.domain, form.cleaned_data["preset"])
        obj.pk = made.pk
        obj.refresh_from_db()

    def refusals(self) -> tuple[type[Exception], ...]:
        """Add those of the inventory."""
        return (AccountError, SiteError, ValidationError)

    @admin.action(description="Provision")
    def provision(self, request: HttpRequest, sites: QuerySet[Site]) -> None:
        """Ask for each chosen site to be made real."""
        self._submit(request, sites, "PROVISION", {"aliases": []})

    @admin.action(description="Back up now")
    def back_up_now(self, request: HttpRequest, sites: QuerySet[Site]) -> None:
        """Ask for a backup of each chosen site."""
        self._submit(request, sites, "BACKUP", {"schedule_type": "MANUAL"})

    def _submit(
        self, request: HttpRequest, sites: QuerySet[Site], name: str, payload: dict[str, Any]
    ) -> None:
        for site in sites.order_by("pk"):
            try:
                job = pipeline.submit(actor_of(request), JobRequest(name, site.pk, payload)).job
            except Refused as refusal:
                self.message_user(request, f"{site}: {refusal}", messages.ERROR)
            else:
                self.message_user(request, f"{site}: {job.code} is queued.", messages.SUCCESS)

    @admin.display(description="customer")
    def customer_link(self, site: Site) -> str:
        """Link to the customer."""
        return link_to(site.customer)

    @admin.display(description="server")
    def server_link(self, site: Site) -> str:
        """Link to the server."""
        return link_to(site.server)

    @admin.display(description="last verified backup")
    def last_verified_backup(self, site: Site) -> str:
        """Link to the newest recovery point."""
        return link_to(last_verified(site))

    @admin.display(description="more")
    def more(self, site: Site) -> str:
        """Link to the site's jobs and backups."""
        jobs = link_to_list(Job, "jobs", site__id__exact=site.pk)
        return jobs + ", " + link_to_list(Backup, "backups", site__id__exact=site.pk)
