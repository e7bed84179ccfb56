"""PLAN and APPROVAL: an intention frozen with its digest, and whose word lets it run, once and for a time."""

from datetime import timedelta
from typing import Any

from django.conf import settings

from accounts.actor import Actor
from accounts.roles import Right
from audit.clock import database_now
from jobs.exceptions import ApprovalRequired, NotReady
from jobs.models import Job, Plan, PlanState
from jobs.operation import Intention, Operation, Payload
from jobs.request import digest
from sites.models import Site
from sites.queries import rights_on


def content_of(operation: Operation, site: Site, payload: Payload, intention: Intention) -> dict[str, Any]:
    """Give the frozen content: what, where, with which payload and by which steps."""
    return {
        "version": 1,
        "operation": operation.name,
        "site": site.pk,
        "payload": payload.model_dump(mode="json"),
        "steps": [{"name": step.name, "sentence": step.sentence} for step in intention.steps],
        "facts": dict(intention.facts),
    }


def fingerprint_of(site: Site) -> str:
    """Give the digest of the site's state that a plan relies on; any change of it voids the plan."""
    return digest(
        {
            "site": site.pk,
            "domain": site.domain,
            "server": site.server_id,
            "customer": site.customer_id,
            "state": site.state,
            "capabilities": site.capabilities,
        }
    )


def approved(actor: Actor, operation: Operation, site: Site, payload: Payload, intention: Intention) -> Plan:
    """Freeze the intention as a plan that its own author approves, where the rights allow that.

    Raises ApprovalRequired for an actor without the right to approve on this site.
    """
    if Right.APPROVE not in rights_on(actor, site):
        raise ApprovalRequired(
            f"{operation.title} of {site} needs the approval of an owner; {actor.name} may not give it."
        )
    now = database_now()
    content = content_of(operation, site, payload, intention)
    return Plan.objects.create(
        kind=operation.name,
        state=PlanState.APPROVED,
        site=site,
        content=content,
        digest=digest(content),
        fingerprint=fingerprint_of(site),
        created_by=actor.name,
        created_at=now,
        expires_at=now + timedelta(minutes=settings.CHP_PLAN_MINUTES),
        approved_by=actor.name,
        approved_by_user_id=actor.user_id,
        approved_at=now,
    )


def require_valid(job: Job, operation: Operation, payload: Payload) -> None:
    """Check a job's plan just before execution. Raises NotReady saying what no longer holds."""
    plan = job.plan
    if not operation.needs_plan:
        return
    if plan is None or job.site is None:
        raise NotReady(f"{job.code} has no plan; {operation.title} runs only with an approved one.")
    if plan.state != PlanState.APPROVED:
        raise NotReady(f"Plan {plan.code} is {plan.get_state_display()}, not approved.")
    if plan.expires_at < database_now():
        raise NotReady(f"Plan {plan.code} expired at {plan.expires_at:%Y-%m-%d %H:%M} UTC; ask again.")
    if plan.digest != digest(plan.content) or plan.content["payload"] != payload.model_dump(mode="json"):
        raise NotReady(f"Plan {plan.code} is not what was approved; its content has changed.")
    if plan.site_id != job.site_id or plan.fingerprint != fingerprint_of(job.site):
        raise NotReady(f"Plan {plan.code} was made for another state of {job.site}; ask again.")
