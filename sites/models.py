"""Inventory: servers and the sites on them."""

from typing import ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models

from accounts.models import Customer
from sites import capabilities
from sites.capabilities import Capability


class Transport(models.TextChoices):
    """How the panel reaches a server's agent. SSH joins with the issue that brings remote servers."""

    UNIX = "UNIX", "Unix socket on this machine"


class Server(models.Model):
    """A machine with an agent."""

    name = models.SlugField(unique=True, help_text="As in the agent's own policy file.")
    transport = models.CharField(max_length=10, choices=Transport.choices, default=Transport.UNIX)
    agent_socket = models.CharField(max_length=100, help_text="Path of the agent's Unix socket.")
    key_id = models.SlugField(help_text="Which key file of this panel signs requests to this agent.")
    web_address = models.CharField(
        max_length=60,
        validators=[RegexValidator(r"^[0-9A-Fa-f.:\[\]]+:[0-9]{1,5}$", "Give an IP address and a port.")],
        help_text="IP address and port at which its web server answers.",
    )
    store = models.SlugField(default="archive", help_text="Backup store of the agent's policy.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class SiteState(models.TextChoices):
    """The life of a site."""

    PROVISIONING = "PROVISIONING", "provisioning"
    ACTIVE = "ACTIVE", "active"
    SUSPENDED = "SUSPENDED", "suspended"
    FAILED = "FAILED", "provisioning failed"
    DELETED = "DELETED", "deleted"


def _full() -> list[str]:
    return [capability.value for capability in capabilities.FULL]


class Site(models.Model):
    """A domain on a server, of one customer. The row outlives the site (DELETED)."""

    customer = models.ForeignKey(Customer, on_delete=models.PROTECT, related_name="sites")
    server = models.ForeignKey(Server, on_delete=models.PROTECT, related_name="sites")
    domain = models.CharField(max_length=253, help_text="ASCII form, lower case, no trailing dot.")
    display_domain = models.CharField(max_length=253, editable=False)
    state = models.CharField(max_length=20, choices=SiteState.choices, default=SiteState.PROVISIONING)
    capabilities = models.JSONField(default=_full)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["domain"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["domain"],
                condition=~models.Q(state="DELETED"),
                name="one_living_site_per_domain",
                violation_error_message="This domain is already a site here.",
            )
        ]
        permissions: ClassVar = [("operate_site", "May start work on any site")]

    def __str__(self) -> str:
        return self.display_domain or self.domain

    def clean(self) -> None:
        try:
            self.capabilities = capabilities.normalised(self.capabilities)
        except (ValueError, TypeError) as error:
            raise ValidationError({"capabilities": str(error)}) from error

    def may(self, capability: Capability) -> bool:
        """Whether this may be done to the site, whoever asks."""
        return capability.value in self.capabilities

    @property
    def preset(self) -> str:
        """READ_ONLY, FULL or CUSTOM."""
        return capabilities.preset_of(self.capabilities)
