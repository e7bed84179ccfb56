"""Resources of sites, for staff: to look at. They are made and changed by jobs."""

from django.contrib import admin

from accounts.staff_pages import ReadOnlyAdmin, link_to
from provisioning.models import Resource


@admin.register(Resource)
class ResourceAdmin(ReadOnlyAdmin):
    """Certificates, FTP accounts, databases and mailboxes."""

    list_display = ("name", "kind", "engine", "site_link", "desired_state", "observed_state")
    list_select_related = ("site",)
    list_filter = ("kind", "observed_state")
    search_fields = ("name", "site__domain")
    search_help_text = "A whole name or domain."
    ordering = ("-pk",)
    exclude = ("site",)
    readonly_fields = ("site_link",)

    @admin.display(description="site")
    def site_link(self, resource: Resource) -> str:
        """Link to the site."""
        return link_to(resource.site)
