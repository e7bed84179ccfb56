"""The shapes that the API gives and takes."""

from datetime import datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from audit.redaction import clean_text
from backups.models import Backup, Fate, Integrity, ScheduleType
from jobs.models import EventType, Job, JobEvent, Level
from jobs.profile import Priority
from jobs.relations import Related
from jobs.request import MAX_AFTER, MAX_LABEL
from jobs.states import Readiness, Status
from sites.capabilities import Capability
from sites.models import Site, SiteState

PRIORITIES = [priority.name for priority in Priority]
READINESS = [(kind.value, kind.label) for kind in Readiness if kind.value]


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses keys that it does not know, so that a mistyped or smuggled one is never silently dropped."""

    def to_internal_value(self, data: Any) -> Any:
        """Check names before values."""
        if isinstance(data, dict):
            unknown = {
                clean_text(name, 60): ["this key is not known"] for name in data if name not in self.fields
            }
            if unknown:
                raise serializers.ValidationError(unknown)
        return super().to_internal_value(data)


class LoginSerializer(StrictSerializer):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=1000, trim_whitespace=False, style={"input_type": "password"})


class TokenSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(help_text="Send it as: Authorization: Token ... It is shown only here.")
    expires_at = serializers.DateTimeField()


class MomentField(serializers.DateTimeField):
    """A time that says its zone: a local time without one would be hours off."""

    default_error_messages = {  # noqa: RUF012 - the framework's own attribute
        "naive": "Say the time zone too, for instance 2026-08-13T02:00:00Z or +02:00."
    }

    def enforce_timezone(self, value: datetime) -> datetime:
        """Refuse a time without a zone."""
        if timezone.is_naive(value):
            self.fail("naive")
        return super().enforce_timezone(value)


class WishSerializer(StrictSerializer):
    """What may be said of any job that is asked for."""

    reason = serializers.CharField(max_length=1000, required=False, allow_blank=True, default="")
    priority = serializers.ChoiceField(PRIORITIES, required=False, allow_null=True, default=None)
    scheduled_at = MomentField(required=False, allow_null=True, default=None)


class BackUpSerializer(WishSerializer):
    schedule_type = serializers.CharField(max_length=20, required=False, default="MANUAL")


class VerifySerializer(WishSerializer):
    deep = serializers.BooleanField(required=False, default=False)


class NewJobSerializer(WishSerializer):
    operation = serializers.CharField(max_length=100, help_text="BACKUP, RESTORE, VERIFY, PROVISION")
    site = serializers.IntegerField(min_value=1, max_value=2**62)
    payload = serializers.DictField(required=False, default=dict)


class ChainedJobSerializer(NewJobSerializer):
    """One job of a chain. `label` is its name there; `after` names what it waits for."""

    label = serializers.CharField(  # type: ignore[assignment]
        max_length=MAX_LABEL, required=False, allow_blank=True, default=""
    )
    after = serializers.ListField(
        child=serializers.CharField(max_length=MAX_LABEL),
        required=False,
        default=list,
        max_length=MAX_AFTER,
        help_text="Labels of this chain, or codes of jobs.",
    )


class ReasonSerializer(StrictSerializer):
    reason = serializers.CharField(max_length=1000)


class SiteReferenceSerializer(serializers.Serializer[Site]):
    id = serializers.IntegerField()
    domain = serializers.CharField()


class SiteSerializer(serializers.Serializer[Site]):
    id = serializers.IntegerField()
    domain = serializers.CharField()
    display_domain = serializers.CharField()
    customer = serializers.CharField(source="customer.code")
    server = serializers.CharField(source="server.name")
    state = serializers.ChoiceField(SiteState.choices)
    capabilities = serializers.ListField(
        child=serializers.ChoiceField([capability.value for capability in Capability])
    )
    preset = serializers.CharField()
    created_at = serializers.DateTimeField()


class ProgressSerializer(serializers.Serializer[Job]):
    percent = serializers.IntegerField(source="progress_percent")
    step = serializers.CharField(source="progress_step")


class JobErrorSerializer(serializers.Serializer[Job]):
    code = serializers.CharField(source="error_code")
    message = serializers.CharField(source="error_message")


class JobSerializer(serializers.Serializer[Job]):
    code = serializers.CharField()
    uuid = serializers.UUIDField()
    type = serializers.CharField(source="job_type")
    category = serializers.CharField()
    status = serializers.ChoiceField(Status.choices)
    priority = serializers.ChoiceField(PRIORITIES, source="priority_name")
    site = SiteReferenceSerializer(allow_null=True)
    customer = serializers.CharField(source="customer.code", allow_null=True)
    server = serializers.CharField(source="server.name", allow_null=True)
    plan = serializers.CharField(source="plan.code", allow_null=True, default=None)
    payload = serializers.JSONField()
    result = serializers.JSONField(allow_null=True)
    progress = ProgressSerializer(source="*")
    error = serializers.SerializerMethodField()
    readiness = serializers.SerializerMethodField()
    waiting_reason = serializers.SerializerMethodField()
    parents = serializers.SerializerMethodField()
    dependents = serializers.SerializerMethodField()
    called_off_with = serializers.SerializerMethodField()
    requested_by = serializers.CharField()
    reason = serializers.CharField()
    worker = serializers.CharField(source="worker_name")
    attempt = serializers.IntegerField()
    max_attempts = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    scheduled_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    heartbeat_at = serializers.DateTimeField(allow_null=True)
    deadline_at = serializers.DateTimeField(allow_null=True)
    completed_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(JobErrorSerializer(allow_null=True))
    def get_error(self, job: Job) -> dict[str, str] | None:
        """Give code and message, or null where there is no error."""
        return dict(JobErrorSerializer(job).data) if job.error_code else None

    @extend_schema_field(serializers.ChoiceField(READINESS, allow_null=True))
    def get_readiness(self, job: Job) -> str | None:
        """Give READY or what kind of thing a queued job waits for, null for one that is not queued."""
        return job.readiness or None

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_waiting_reason(self, job: Job) -> str | None:
        """Give the sentence why a queued job does not run; the view works them out for a whole page."""
        reasons: dict[int, str] = self.context.get("waiting", {})
        return reasons.get(job.pk)

    def get_parents(self, job: Job) -> list[str]:
        """Give the codes of the jobs that it waits for, also once they have ended."""
        return [other.code for other in self._related(job).parents]

    def get_dependents(self, job: Job) -> list[str]:
        """Give the codes of the jobs that wait for it."""
        return [other.code for other in self._related(job).dependents]

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_called_off_with(self, job: Job) -> str | None:
        """Give the code of the job with which it was called off; retrying that one brings it back."""
        other = self._related(job).called_off_with
        return other.code if other else None

    def _related(self, job: Job) -> Related:
        related: dict[int, Related] = self.context.get("related", {})
        return related.get(job.pk, Related())


class JobEventSerializer(serializers.Serializer[JobEvent]):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    epoch = serializers.IntegerField()
    type = serializers.ChoiceField(EventType.choices, source="event_type")
    level = serializers.ChoiceField(Level.choices)
    message = serializers.CharField()
    # DRF takes declared fields out of the class, so the names of its own properties stay free.
    data = serializers.DictField()  # type: ignore[assignment]


class BackupSerializer(serializers.Serializer[Backup]):
    code = serializers.CharField()
    site = SiteReferenceSerializer()
    job = serializers.CharField(source="job.code", allow_null=True, default=None)
    schedule_type = serializers.ChoiceField(ScheduleType.choices)
    integrity = serializers.ChoiceField(Integrity.choices)
    fate = serializers.ChoiceField(Fate.choices)
    counts = serializers.BooleanField(help_text="Whether it is a recovery point.")
    created_at = serializers.DateTimeField()
    verified_at = serializers.DateTimeField(allow_null=True)
    store = serializers.CharField()
    size_bytes = serializers.IntegerField()
    files = serializers.IntegerField()
    databases = serializers.ListField(child=serializers.DictField())
    manifest_sha256 = serializers.CharField()
    error_message = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """The body of every error, as application/problem+json."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField()
    detail = serializers.CharField()
    instance = serializers.CharField()
    errors = serializers.ListField(  # type: ignore[assignment]
        child=serializers.DictField(), required=False
    )
