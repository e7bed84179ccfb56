"""What the trail tells of: one name per kind of act."""

from django.db.models import TextChoices


class Action(TextChoices):
    """The act that an entry records, named object.what_happened."""

    JOB_ENQUEUED = "job.enqueued", "job enqueued"
    JOB_STARTED = "job.started", "job started"
    JOB_SUCCEEDED = "job.succeeded", "job succeeded"
    JOB_FAILED = "job.failed", "job failed"
    JOB_REQUEUED = "job.requeued", "job queued again"
    JOB_CANCELLED = "job.cancelled", "job cancelled"
    JOB_CANCEL_REQUESTED = "job.cancel_requested", "cancellation of a job asked for"
    JOB_ORPHANED = "job.orphaned", "job orphaned"
    JOB_RESOLVED = "job.resolved", "orphaned or failed job resolved by a person"
    JOB_RESULT_LATE = "job.result_late", "late result of a job, not taken over"
    PLAN_CREATED = "plan.created", "plan created"
    PLAN_APPROVED = "plan.approved", "plan approved"
    POLICY_CHANGED = "policy.changed", "policy changed"
    RECORD_CREATED = "record.created", "record created"
    RECORD_CHANGED = "record.changed", "record changed"
    RECORD_DELETED = "record.deleted", "record deleted"
    ACCESS_DENIED = "access.denied", "access denied"
    LOGIN_SUCCEEDED = "login.succeeded", "logged in"
    LOGIN_FAILED = "login.failed", "login refused"
    LOGOUT = "logout", "logged out"
    TOKEN_CREATED = "token.created", "token created"
    TOKEN_REVOKED = "token.revoked", "token revoked"
    BACKUP_VERIFIED = "backup.verified", "backup verified"
    BACKUP_CORRUPTED = "backup.corrupted", "backup found corrupted"
    AUDIT_ANCHORED = "audit.anchored", "trail anchored by a person"
