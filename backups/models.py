"""Artifacts. Policy, execution and retention have tables of their own and are never mixed with this one."""

import re
from typing import ClassVar

from django.db import models

from jobs.models import Job
from sites.models import Server, Site

CODE = re.compile(r"BK-[0-9]{8}-[0-9]{6}(-[1-9][0-9]{0,5})?")


class ScheduleType(models.TextChoices):
    """Why a backup was made."""

    DAILY = "DAILY", "daily"
    WEEKLY = "WEEKLY", "weekly"
    MONTHLY = "MONTHLY", "monthly"
    MANUAL = "MANUAL", "manual"
    REPAIR = "REPAIR", "before a repair"
    PRE_RESTORE = "PRE_RESTORE", "before a restore"


class Integrity(models.TextChoices):
    """What is known of the artifact. Only VERIFIED counts."""

    CREATING = "CREATING", "being made"
    VERIFIED = "VERIFIED", "verified"
    PARTIAL = "PARTIAL", "partial"
    FAILED = "FAILED", "failed"
    CORRUPTED = "CORRUPTED", "corrupted"


class Fate(models.TextChoices):
    """What retention has decided, apart from integrity."""

    KEPT = "KEPT", "kept"
    CANDIDATE = "CANDIDATE", "candidate for deletion"
    SAFE_TO_DELETE = "SAFE_TO_DELETE", "safe to delete"
    DELETED = "DELETED", "deleted"


class Backup(models.Model):
    """One artifact in a store, or the try to make one."""

    code = models.CharField(max_length=32, unique=True)
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="backups")
    server = models.ForeignKey(Server, on_delete=models.PROTECT, related_name="backups")
    job = models.ForeignKey(Job, null=True, blank=True, on_delete=models.SET_NULL, related_name="backups")
    store = models.CharField(max_length=50)
    schedule_type = models.CharField(max_length=20, choices=ScheduleType.choices)
    integrity = models.CharField(max_length=20, choices=Integrity.choices, default=Integrity.CREATING)
    fate = models.CharField(max_length=20, choices=Fate.choices, default=Fate.KEPT)
    created_at = models.DateTimeField(help_text="When the snapshot was begun; newest and freshness go by it.")
    verified_at = models.DateTimeField(null=True, blank=True, help_text="How old the proof is.")
    path = models.CharField(max_length=500, blank=True)
    size_bytes = models.BigIntegerField(default=0)
    files = models.BigIntegerField(default=0)
    databases = models.JSONField(default=list, blank=True)
    manifest_sha256 = models.CharField(max_length=64, blank=True)
    skipped = models.JSONField(default=list, blank=True)
    error_message = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at", "-pk"]
        indexes: ClassVar = [
            models.Index(fields=["site", "-created_at", "-id"], name="backup_by_site"),
            models.Index(fields=["integrity", "-id"], name="backup_by_integrity"),
        ]

    def __str__(self) -> str:
        return self.code

    @property
    def counts(self) -> bool:
        """Whether this is a recovery point."""
        return self.integrity == Integrity.VERIFIED and self.fate != Fate.DELETED
