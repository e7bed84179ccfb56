"""The states of a job, a sentence for each, and the one table of allowed moves."""

from django.db import models


class Status(models.TextChoices):
    """Where a job stands (DESIGN section 4)."""

    QUEUED = "QUEUED", "queued"
    RUNNING = "RUNNING", "running"
    CANCEL_REQUESTED = "CANCEL_REQUESTED", "cancel requested"
    SUCCESS = "SUCCESS", "success"
    FAILED = "FAILED", "failed"
    CANCELLED = "CANCELLED", "cancelled"
    ORPHANED = "ORPHANED", "orphaned"
    RESOLVED = "RESOLVED", "resolved"


class Readiness(models.TextChoices):
    """Whether a queued job can be claimed, and if not, what it waits for. Stored, so that a claim reads on.

    Pauses of everything, a type or a server and the limits are not stored: they are looked at by the claim.
    """

    NONE = "", "not queued"
    READY = "READY", "ready"
    LATER = "LATER", "its time has not come"
    PARENT = "PARENT", "waits for another job"
    SITE = "SITE", "another job keeps its site closed"
    BEHIND = "BEHIND", "behind an earlier job of its kind on its site"
    PAUSED = "PAUSED", "its site is paused"


SENTENCES: dict[Status, str] = {
    Status.QUEUED: "It waits for its turn.",
    Status.RUNNING: "A worker has claimed it and beats for it.",
    Status.CANCEL_REQUESTED: "It stops at its next checkpoint, unless it ends first.",
    Status.SUCCESS: "Done and verified.",
    Status.FAILED: "It ended without its result; the error says why.",
    Status.CANCELLED: "It was called off before its result counted.",
    Status.ORPHANED: "Its worker was lost and it is not safe to repeat: a person must look and decide.",
    Status.RESOLVED: "A person has dealt with it by hand.",
}

# QUEUED from FAILED, ORPHANED and CANCELLED is always a person's retry or the revival of a dependent.
MOVES: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.RUNNING, Status.CANCELLED, Status.FAILED}),
    Status.RUNNING: frozenset(
        {Status.SUCCESS, Status.FAILED, Status.CANCEL_REQUESTED, Status.QUEUED, Status.ORPHANED}
    ),
    Status.CANCEL_REQUESTED: frozenset({Status.CANCELLED, Status.SUCCESS, Status.FAILED, Status.ORPHANED}),
    Status.ORPHANED: frozenset({Status.FAILED, Status.RESOLVED, Status.QUEUED}),
    Status.FAILED: frozenset({Status.QUEUED, Status.RESOLVED}),
    Status.CANCELLED: frozenset({Status.QUEUED}),
    Status.SUCCESS: frozenset(),
    Status.RESOLVED: frozenset(),
}

# A worker owns the job in these.
HELD = (Status.RUNNING, Status.CANCEL_REQUESTED)
# The site stays closed to conflicting work in these.
CLOSING = (*HELD, Status.ORPHANED)
# The first of its kind on its site: those behind it wait until it has gone.
HEADS = (Readiness.READY, Readiness.SITE, Readiness.PAUSED)
# In line for a worker; the time that counts for aging runs.
WAITING = (*HEADS, Readiness.BEHIND)
# What a dependent waits for has come to a good end in these.
SATISFIED = (Status.SUCCESS, Status.RESOLVED)
ENDED = (Status.SUCCESS, Status.FAILED, Status.CANCELLED, Status.RESOLVED)


def may_move(origin: str, to: str) -> bool:
    """Whether the table allows the move."""
    return Status(to) in MOVES[Status(origin)]
