"""How states, times and types look on the panel's pages."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import template

from jobs import registry
from jobs.models import Job

register = template.Library()

# Every state of jobs, sites and backups; what is not here looks neutral.
TONES = {
    "good": ("SUCCESS", "RESOLVED", "ACTIVE", "VERIFIED"),
    "busy": ("RUNNING", "PROVISIONING", "CREATING"),
    "waiting": ("QUEUED", "CANCEL_REQUESTED", "SUSPENDED", "PARTIAL", "WARNING"),
    "bad": ("FAILED", "ORPHANED", "CORRUPTED", "ERROR"),
}
TONE_OF = {state: tone for tone, states in TONES.items() for state in states}


@register.inclusion_tag("panel/_badge.html")
def badge(state: str, text: object) -> dict[str, object]:
    """Show a state as a badge: the text says it, the colour only helps."""
    return {"tone": TONE_OF.get(state, "neutral"), "text": text}


@register.inclusion_tag("panel/_moment.html")
def moment(at: datetime | None) -> dict[str, datetime | None]:
    """Show a time, in UTC, with its machine form."""
    return {"at": at}


@register.filter
def type_title(job_type: str) -> str:
    """Give the words for a job type; a type that is not installed any more keeps its name."""
    operation = registry.operations().get(job_type)
    return operation.title.capitalize() if operation else job_type


@register.filter
def progress(job: Job) -> str:
    """Give how far the work is, empty where nothing was reported."""
    percent = f"{job.progress_percent} %" if job.progress_percent else ""
    return ", ".join(filter(None, [percent, job.progress_step]))


@register.filter
def at_key(values: Mapping[Any, Any], key: object) -> Any:
    """Give the value of a mapping at a key, empty if there is none."""
    return values.get(key, "")
