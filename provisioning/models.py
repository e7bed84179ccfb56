"""What is provisioned for a site beside its files."""

from typing import ClassVar

from django.db import models

from sites.models import Site


class ResourceKind(models.TextChoices):
    CERTIFICATE = "CERTIFICATE", "certificate"
    FTP_ACCOUNT = "FTP_ACCOUNT", "FTP account"
    DATABASE = "DATABASE", "database"
    MAILBOX = "MAILBOX", "mailbox"


class ResourceState(models.TextChoices):
    """Used for the desired and for the observed state alike."""

    ABSENT = "ABSENT", "absent"
    PROVISIONING = "PROVISIONING", "provisioning"
    ACTIVE = "ACTIVE", "active"
    SUSPENDED = "SUSPENDED", "suspended"
    FAILED = "FAILED", "failed"


class Resource(models.Model):
    """A certificate, FTP account, database or mailbox of a site."""

    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="resources")
    kind = models.CharField(max_length=20, choices=ResourceKind.choices)
    engine = models.CharField(max_length=20, blank=True, help_text="Of a database: mariadb.")
    name = models.CharField(max_length=64)
    desired_state = models.CharField(
        max_length=20, choices=ResourceState.choices, default=ResourceState.ACTIVE
    )
    observed_state = models.CharField(
        max_length=20, choices=ResourceState.choices, default=ResourceState.PROVISIONING
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["kind", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["site", "kind", "engine", "name"], name="one_resource_per_name"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.name}"
