"""The trail's tables: the chained entries, and the one row that says where the chain ends."""

from datetime import datetime
from typing import ClassVar

from django.db import models

from audit.actions import Action


class AuditEntry(models.Model):
    """One link of the chain.

    Every column but the sequence is text, so that the code in `mac` covers exactly what is stored, on every
    database: `at` is UTC with microseconds, `data` is canonical JSON.
    """

    sequence = models.BigIntegerField(primary_key=True)
    at = models.CharField(max_length=27)
    actor = models.CharField(max_length=200)
    actor_kind = models.CharField(max_length=20)
    tenant = models.CharField(max_length=100, blank=True)
    # No choices: a new action needs no migration, and `trail.record` refuses an unknown one.
    action = models.CharField(max_length=40)
    target = models.CharField(max_length=300, blank=True)
    reason = models.TextField(blank=True)
    result = models.CharField(max_length=100, blank=True)
    data = models.TextField(default="{}")
    key_id = models.CharField(max_length=40)
    previous = models.CharField(max_length=64)
    mac = models.CharField(max_length=64)

    class Meta:
        ordering: ClassVar = ["-sequence"]
        verbose_name_plural = "audit entries"
        indexes: ClassVar = [
            models.Index(fields=[name, "-sequence"], name=f"audit_by_{name}")
            for name in ("tenant", "target", "actor", "action")
        ]

    def __str__(self) -> str:
        return f"{self.sequence} {self.at} {self.actor}: {self.action} {self.target}".rstrip()

    @property
    def act(self) -> str:
        """The action in words."""
        known = self.action in Action.values
        return str(Action(self.action).label) if known else self.action

    @property
    def moment(self) -> datetime:
        """When it was recorded, aware, in UTC."""
        return datetime.fromisoformat(self.at)


class AuditHead(models.Model):
    """Where the chain ends. Exactly one row; whoever writes entries locks it first."""

    ONLY: ClassVar[int] = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY)
    sequence = models.BigIntegerField()
    mac = models.CharField(max_length=64)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=models.Q(id=1), name="audit_head_is_one_row")
        ]

    def __str__(self) -> str:
        return f"the chain ends at {self.sequence}"
