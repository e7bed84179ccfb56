"""Changes of job policies. Authorises, validates, writes and audits; nothing else writes that table."""

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import ValidationError

from accounts.actor import Actor
from accounts.record_changes import require_operator, save_policy
from jobs import registry
from jobs.models import JobPolicy
from jobs.operation import Operation

LONGEST_SECONDS = 7 * 86_400
MOST_ATTEMPTS = 20
MOST_DELAYS = 20


def save_job_policy(actor: Actor, policy: JobPolicy) -> JobPolicy:
    """Add or change what differs from a type's declared defaults.

    Raises NotAllowed, and ValidationError naming every field that is out of its bounds.
    """
    target = f"job-policy:{policy.job_type}"
    require_operator(actor, "change job policies", target)
    require_bounds(policy)
    save_policy(actor, policy, target)
    return policy


def require_bounds(policy: JobPolicy) -> None:
    """Check the values against the type's declaration and the ceilings of the settings."""
    operation = registry.operations().get(policy.job_type)
    if operation is None:
        known = ", ".join(registry.known_types())
        raise ValidationError({"job_type": f"No such job type is installed. Installed are: {known}."})
    wrong = {field: check(policy, operation) for field, check in CHECKS.items()}
    errors = {field: message for field, message in wrong.items() if message}
    if errors:
        raise ValidationError(errors)


def _attempts(policy: JobPolicy, operation: Operation) -> str:
    if policy.max_attempts is None:
        return ""
    if operation.needs_plan and policy.max_attempts != 1:
        return f"{operation.name} is never repeated by itself: 1, or empty."
    return "" if 1 <= policy.max_attempts <= MOST_ATTEMPTS else f"1 to {MOST_ATTEMPTS}, or empty."


def _delays(policy: JobPolicy, operation: Operation) -> str:
    delays = policy.retry_delays
    if delays is None:
        return ""
    if isinstance(delays, list) and len(delays) <= MOST_DELAYS and all(_is_delay(delay) for delay in delays):
        return ""
    return f"A list of at most {MOST_DELAYS} whole numbers of seconds, each 0 to {LONGEST_SECONDS}."


def _is_delay(delay: object) -> bool:
    return type(delay) is int and 0 <= delay <= LONGEST_SECONDS


def _timeout(policy: JobPolicy, operation: Operation) -> str:
    if policy.timeout_seconds is None or 1 <= policy.timeout_seconds <= LONGEST_SECONDS:
        return ""
    return f"1 to {LONGEST_SECONDS} seconds, or empty."


def _concurrency(policy: JobPolicy, operation: Operation) -> str:
    ceiling = settings.CHP_TYPE_LIMITS.get(policy.job_type, settings.MAX_WORKERS)
    if policy.concurrency is None or policy.concurrency <= ceiling:
        return ""
    return f"At most {ceiling}, the ceiling of the settings; raise it there."


def _concurrency_per_server(policy: JobPolicy, operation: Operation) -> str:
    most = settings.MAX_JOBS_PER_SERVER or settings.MAX_WORKERS
    ceiling = settings.CHP_TYPE_LIMITS_PER_SERVER.get(policy.job_type, most)
    if policy.concurrency_per_server is None or policy.concurrency_per_server <= ceiling:
        return ""
    return f"At most {ceiling}, the ceiling of the settings; raise it there."


CHECKS: dict[str, Callable[[JobPolicy, Operation], str]] = {
    "max_attempts": _attempts,
    "retry_delays": _delays,
    "timeout_seconds": _timeout,
    "concurrency": _concurrency,
    "concurrency_per_server": _concurrency_per_server,
}
