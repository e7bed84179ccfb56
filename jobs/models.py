"""The rows of the engine. Status and claim columns are changed by `jobs.transitions` alone."""

import re
import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models

from accounts.models import Customer
from jobs.profile import Category, OnLost, Priority, SiteLock
from jobs.states import CLOSING, ENDED, HEADS, HELD, WAITING, Readiness, Status
from sites.models import Server, Site

CODE = re.compile(r"JOB-0*([1-9][0-9]{0,17})")
PLAN_PREFIXES = {"RESTORE": "RS", "REPAIR": "RP"}


def _choices(enum: type[Category] | type[SiteLock] | type[OnLost]) -> list[tuple[str, str]]:
    return [(member.value, member.value.lower()) for member in enum]


class PlanState(models.TextChoices):
    """The life of a plan. Expiry is a time, not a state: it is judged when the plan is used."""

    PROPOSED = "PROPOSED", "proposed"
    APPROVED = "APPROVED", "approved"
    USED = "USED", "used"


class Plan(models.Model):
    """A frozen intention to change a site, with its approval. One approval serves one run."""

    kind = models.CharField(max_length=20, choices=[(kind, kind.lower()) for kind in PLAN_PREFIXES])
    state = models.CharField(max_length=20, choices=PlanState.choices, default=PlanState.PROPOSED)
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="plans")
    content = models.JSONField()
    digest = models.CharField(max_length=64)
    fingerprint = models.CharField(max_length=64)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    approved_by = models.CharField(max_length=200, blank=True)
    approved_by_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    approved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-pk"]

    def __str__(self) -> str:
        return self.code

    @property
    def code(self) -> str:
        """RS-000007 or RP-000021, derived from the key."""
        return f"{PLAN_PREFIXES[self.kind]}-{self.pk:06d}"


# How jobs are handed out within a type.
ORDER = ("priority", "turn", "scheduled_at", "id")
READY = models.Q(readiness=Readiness.READY)


def _is_in(values: tuple[Readiness, ...]) -> models.Q:
    return models.Q(readiness__in=[value.value for value in values])


class Job(models.Model):
    """One unit of work, with the policy that was in force when it was asked for."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    job_type = models.CharField(max_length=40)
    category = models.CharField(max_length=20, choices=_choices(Category))
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.QUEUED)
    priority = models.PositiveSmallIntegerField(
        choices=[(priority.value, priority.name) for priority in Priority]
    )
    # No index of their own: those of two columns below begin with them.
    site = models.ForeignKey(
        Site, null=True, blank=True, on_delete=models.PROTECT, related_name="jobs", db_index=False
    )
    customer = models.ForeignKey(
        Customer, null=True, blank=True, on_delete=models.PROTECT, related_name="jobs", db_index=False
    )
    server = models.ForeignKey(Server, null=True, blank=True, on_delete=models.PROTECT, related_name="jobs")
    plan = models.OneToOneField(Plan, null=True, blank=True, on_delete=models.PROTECT, related_name="job")
    payload = models.JSONField(default=dict)
    result = models.JSONField(null=True, blank=True)

    requested_by = models.CharField(max_length=200)
    requested_kind = models.CharField(max_length=20)
    requested_by_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    reason = models.CharField(max_length=1000, blank=True)
    # Null, not empty, where there is none: the unique constraint is for keys alone.
    idempotency_key = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001
    fingerprint = models.CharField(max_length=64)

    readiness = models.CharField(
        max_length=10, choices=Readiness.choices, default=Readiness.NONE, blank=True, editable=False
    )
    # Only jobs that keep a site closed are named here, and those are never pruned: the database need not
    # look for references at each deletion.
    blocked_by = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_index=False,
        db_constraint=False,
        editable=False,
    )
    turn = models.BigIntegerField(default=0, help_text="Its customer's turn within its priority.")
    waiting_since = models.DateTimeField(null=True, blank=True, help_text="From when its aging counts.")
    # Both are of one chain, which is pruned whole.
    cancelled_with = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_index=False,
        db_constraint=False,
        editable=False,
        help_text="The failed or cancelled job that called it off; retrying that one revives it.",
    )

    created_at = models.DateTimeField()
    scheduled_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)

    worker_id = models.UUIDField(null=True, blank=True)
    worker_name = models.CharField(max_length=100, blank=True)
    place = models.PositiveSmallIntegerField(null=True, blank=True, help_text="Slot of the worker.")
    epoch = models.PositiveIntegerField(default=0)
    claim_token = models.CharField(max_length=64, blank=True)
    attempt = models.PositiveIntegerField(default=0)

    max_attempts = models.PositiveIntegerField()
    retry_delays = models.JSONField(default=list)
    timeout_seconds = models.PositiveIntegerField()
    stale_seconds = models.FloatField()
    on_lost = models.CharField(max_length=20, choices=_choices(OnLost))
    lock = models.CharField(max_length=20, choices=_choices(SiteLock))
    mutating = models.BooleanField()
    heavy = models.CharField(max_length=40, blank=True, help_text="disk, database, network: used heavily.")
    brief = models.BooleanField(default=False)

    progress_percent = models.PositiveSmallIntegerField(default=0)
    progress_step = models.CharField(max_length=200, blank=True)
    error_code = models.CharField(max_length=60, blank=True)
    error_message = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["idempotency_key"], name="one_job_per_idempotency_key"),
            # The database's own refusal of two exclusive jobs on one site; ORPHANED keeps the site closed.
            models.UniqueConstraint(
                fields=["site"],
                condition=models.Q(status__in=[status.value for status in CLOSING], lock="EXCLUSIVE"),
                name="one_exclusive_job_per_site",
            ),
        ]
        indexes: ClassVar = [
            # What a claim reads, by type and, where a server is full, by type and server.
            models.Index(fields=["job_type", *ORDER], condition=READY, name="job_claim"),
            models.Index(fields=["job_type", "server", *ORDER], condition=READY, name="job_claim_on_server"),
            models.Index(fields=["priority", "turn"], condition=READY, name="job_turn"),
            models.Index(
                fields=["customer", "priority", "turn"], condition=_is_in(WAITING), name="job_customer_turn"
            ),
            # What becomes ready next: by its time, on its site, behind its kind, when its blocker goes.
            models.Index(
                fields=["scheduled_at"], condition=models.Q(readiness=Readiness.LATER), name="job_later"
            ),
            models.Index(fields=["site", "readiness", "job_type"], condition=_is_in(HEADS), name="job_head"),
            models.Index(
                fields=["site", "job_type", *ORDER],
                condition=models.Q(readiness=Readiness.BEHIND),
                name="job_behind",
            ),
            models.Index(
                fields=["blocked_by"], condition=models.Q(readiness=Readiness.SITE), name="job_blocked"
            ),
            models.Index(fields=["id"], condition=models.Q(readiness=Readiness.PARENT), name="job_dependent"),
            models.Index(
                fields=["cancelled_with"],
                condition=models.Q(cancelled_with__isnull=False),
                name="job_cancelled_with",
            ),
            # Empty while all is well.
            models.Index(
                fields=["id"],
                condition=models.Q(status=Status.QUEUED, readiness=Readiness.NONE),
                name="job_nowhere",
            ),
            models.Index(
                fields=["waiting_since"],
                condition=_is_in(WAITING) & models.Q(priority__gt=Priority.HIGH),
                name="job_aging",
            ),
            models.Index(
                fields=["heartbeat_at"],
                condition=models.Q(status__in=[status.value for status in HELD]),
                name="job_held",
            ),
            models.Index(
                fields=["site"],
                condition=models.Q(status__in=[status.value for status in CLOSING]),
                name="job_closing",
            ),
            models.Index(
                fields=["completed_at"],
                condition=models.Q(status__in=[status.value for status in ENDED]),
                name="job_ended",
            ),
            models.Index(fields=["site", "-id"], name="job_by_site"),
            models.Index(fields=["customer", "-id"], name="job_by_customer"),
            models.Index(fields=["status", "-id"], name="job_by_status"),
            models.Index(fields=["job_type", "-id"], name="job_by_type"),
        ]

    def __str__(self) -> str:
        return self.code

    @property
    def code(self) -> str:
        """JOB-000241, derived from the key: it cannot disagree with it."""
        return f"JOB-{self.pk:06d}"

    @property
    def priority_name(self) -> str:
        return Priority(self.priority).name


def job_id_of(code: str) -> int | None:
    """Give the key that a code such as JOB-000241 (or JOB-241) stands for, or None if it is no code."""
    match = CODE.fullmatch(code.strip().upper())
    return int(match[1]) if match else None


class JobDependency(models.Model):
    """One job waits for another to come to a good end. Never changed once both are there: no cycles."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="waits_for")
    parent = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="dependents")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "parent"], name="one_dependency_per_pair"),
            models.CheckConstraint(
                condition=~models.Q(job=models.F("parent")), name="no_job_waits_for_itself"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} waits for {self.parent_id}"


class SiteGate(models.Model):
    """What keeps a site closed, one row per site: who changes that takes this row's lock first.

    The counts are worked out anew from the rows of jobs at each change, never added to, so they cannot
    leak. The checks are the database's own refusal of what `jobs.conflicts` forbids.
    """

    site = models.OneToOneField(Site, primary_key=True, on_delete=models.CASCADE, related_name="+")
    exclusive = models.PositiveIntegerField(default=0)
    mutating = models.PositiveIntegerField(default=0)
    shared = models.PositiveIntegerField(default=0)
    paused = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=models.Q(exclusive__lte=1), name="at_most_one_exclusive_job"),
            models.CheckConstraint(
                condition=models.Q(mutating=0) | models.Q(shared=0), name="no_shared_job_beside_a_change"
            ),
        ]

    def __str__(self) -> str:
        return f"gate of site {self.site_id}"


class PauseScope(models.TextChoices):
    """What a pause holds back."""

    ALL = "ALL", "everything"
    TYPE = "TYPE", "a type"
    SERVER = "SERVER", "a server"
    SITE = "SITE", "a site"


class Pause(models.Model):
    """Work that is held back, by whom and why. What already runs is not touched."""

    scope = models.CharField(max_length=10, choices=PauseScope.choices)
    # all, type:BACKUP, server:3, site:7
    target = models.CharField(max_length=60, unique=True, editable=False)
    job_type = models.CharField(max_length=40, blank=True)
    server = models.ForeignKey(Server, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    site = models.ForeignKey(Site, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    paused_by = models.CharField(max_length=200, editable=False)
    reason = models.CharField(max_length=1000)
    since = models.DateTimeField(editable=False)

    class Meta:
        ordering: ClassVar = ["since"]

    def __str__(self) -> str:
        what = self.job_type or self.server or self.site
        return f"{self.get_scope_display()} {what}" if what else self.get_scope_display()


class UsedKey(models.Model):
    """An idempotency key whose job was pruned: a client that asks again late is not served twice."""

    key = models.CharField(max_length=255, unique=True)
    fingerprint = models.CharField(max_length=64)
    job_code = models.CharField(max_length=30)
    pruned_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.key


class EventType(models.TextChoices):
    """What can happen in a job's history (DESIGN section 4, Events)."""

    CREATED = "CREATED"
    CLAIMED = "CLAIMED"
    STARTED = "STARTED"
    LOCK_ACQUIRED = "LOCK_ACQUIRED"
    LOCK_BUSY = "LOCK_BUSY"
    ACTION_STARTED = "ACTION_STARTED"
    ACTION_COMPLETED = "ACTION_COMPLETED"
    PROGRESS = "PROGRESS"
    CHECKPOINT = "CHECKPOINT"
    RETRY = "RETRY"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    TIMEOUT = "TIMEOUT"
    HEARTBEAT_LOST = "HEARTBEAT_LOST"
    ORPHANED = "ORPHANED"
    LATE_RESULT = "LATE_RESULT"
    PRIORITY_RAISED = "PRIORITY_RAISED"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    RESOLVED = "RESOLVED"


class Level(models.TextChoices):
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class JobEvent(models.Model):
    """One line of a job's history. Written by `jobs.events` and `jobs.transitions` only."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    epoch = models.PositiveIntegerField(default=0)
    event_type = models.CharField(max_length=20, choices=EventType.choices)
    level = models.CharField(max_length=10, choices=Level.choices, default=Level.INFO)
    message = models.TextField(blank=True)
    data = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return f"{self.event_type} {self.message}"


class Worker(models.Model):
    """One start of a worker process. The name is only a label; the key is unique per start."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    slots = models.PositiveSmallIntegerField()
    job_types = models.JSONField(default=list)
    started_at = models.DateTimeField()
    polled_at = models.DateTimeField(help_text="When it last asked for work: what liveness means here.")
    stopped_at = models.DateTimeField(null=True, blank=True)
    clock_skew_seconds = models.FloatField(
        null=True, blank=True, help_text="Its clock minus the database's, at its last beat."
    )

    class Meta:
        ordering: ClassVar = ["-started_at"]
        indexes: ClassVar = [
            models.Index(fields=["polled_at"], condition=models.Q(stopped_at=None), name="worker_alive")
        ]

    def __str__(self) -> str:
        return self.name


class JobPolicy(models.Model):
    """What staff has changed of a type's declared defaults. An empty field keeps the default."""

    job_type = models.CharField(max_length=40, unique=True)
    priority = models.PositiveSmallIntegerField(
        null=True, blank=True, choices=[(priority.value, priority.name) for priority in Priority]
    )
    max_attempts = models.PositiveIntegerField(null=True, blank=True)
    retry_delays = models.JSONField(null=True, blank=True, help_text="Seconds, for instance [1800, 3600].")
    timeout_seconds = models.PositiveIntegerField(null=True, blank=True)
    concurrency = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="At most this many at once; it may only lower the configured ceiling.",
    )
    concurrency_per_server = models.PositiveIntegerField(
        null=True, blank=True, help_text="At most this many at once on one server."
    )

    class Meta:
        verbose_name_plural = "job policies"

    def __str__(self) -> str:
        return self.job_type
