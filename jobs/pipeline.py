"""The one road of every operation. Read this page first.

    REQUEST -> AUTHORIZATION -> PLAN -> APPROVAL -> JOB -> QUEUE
        -> WORKER -> LOCK -> EXECUTION -> VERIFY -> AUDIT

`submit` goes from REQUEST to QUEUE. A worker's supervisor claims (`jobs.queue`), a slot goes on with
`jobs.execution` from LOCK to AUDIT. Faces call this module and nothing below it to start or stop work.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction

from accounts.actor import Actor
from audit import trail
from audit.actions import Action
from audit.clock import database_now
from audit.redaction import clean_text
from jobs import (
    authorization,
    bell,
    chain,
    dependencies,
    events,
    gates,
    plan,
    readiness,
    registry,
    transitions,
)
from jobs.events import Line
from jobs.exceptions import (
    ApprovalRequired,
    Forbidden,
    Invalid,
    KeyConflict,
    NotReady,
    NotVisible,
    Refused,
    WrongState,
)
from jobs.gates import Gates
from jobs.models import EventType, Job, JobDependency, Plan, UsedKey, job_id_of
from jobs.operation import Intention, Operation, Payload
from jobs.policies import Policy, policy_of
from jobs.profile import Priority
from jobs.queries import job_visible_to, jobs_visible_to
from jobs.request import JobRequest, digest, require_bounds, validated_payload
from jobs.states import SATISFIED, Readiness, Status, may_move
from jobs.transitions import Move
from jobs.turns import Turns
from sites.models import Site
from sites.queries import rights_on


@dataclass(frozen=True)
class Preview:
    """What a request would do, and at which priority. Nothing was written."""

    operation: str
    site: Site
    intention: Intention
    priority: Priority


@dataclass(frozen=True)
class Submission:
    """The job of a request; `created` is False where an earlier one answers the same idempotency key."""

    job: Job
    created: bool


@dataclass(frozen=True)
class _Accepted:
    """A request that has passed authorization and validation."""

    actor: Actor
    request: JobRequest
    operation: Operation
    site: Site
    payload: Payload
    priority: Priority
    policy: Policy
    key: str | None
    fingerprint: str


def preview(actor: Actor, request: JobRequest) -> Preview:
    """Say what `submit` would do. Raises Refused as it would; a refusal is recorded alike."""
    try:
        accepted = _accept(actor, request)
        intention = accepted.operation.intend(accepted.site, accepted.payload)
    except Refused as refusal:
        record_refusal(actor, request, refusal)
        raise
    return Preview(accepted.operation.name, accepted.site, intention, accepted.priority)


def submit(actor: Actor, request: JobRequest) -> Submission:
    """Create the job that the request asks for, with its event and audit entry, in the caller's transaction.

    Raises Refused (see jobs.exceptions) with a sentence for the person. Nothing is left behind then but the
    denial in the trail, which has its own transaction: a caller that has one open records the refusal
    itself, by `record_refusal`, once its own is rolled back.
    """
    return submit_chain(actor, [request])[0]


def submit_chain(actor: Actor, requests: Sequence[JobRequest]) -> list[Submission]:
    """Create several jobs that wait for each other, all or none; give them in the order of the requests.

    A job whose parent fails or is called off is called off with it. Raises Refused as `submit` does, and
    Invalid with the path where the jobs wait for each other in a circle.
    """
    first = requests[0] if requests else JobRequest("", 0)
    current: JobRequest | None = None
    try:
        with transaction.atomic():
            made: dict[int, Submission] = {}
            accepted = []
            for current in chain.ordered(requests):
                accepted.append(_accept(actor, current, len(requests)))
            named = _named_parents(actor, accepted)
            held = gates.lock([*(one.site.pk for one in accepted), *named.values()])
            # All at once and by key, as everybody does.
            transitions.lock_rows(named)
            for one in accepted:
                current = one.request
                made[id(one.request)] = _create(one, held, requests, made)
            # The last statement: who has the head of the trail waits for no other lock any more.
            created = [(one, made[id(one.request)]) for one in accepted if made[id(one.request)].created]
            trail.record(*[entry for one, new in created for entry in _entries(one, new.job)])
            return [made[id(request)] for request in requests]
    except Refused as refusal:
        refusal.position = next((at for at, one in enumerate(requests) if one is current), None)
        if not _inside_callers_transaction():
            record_refusal(actor, current or first, refusal)
        raise


def record_refusal(actor: Actor, request: JobRequest, refusal: Refused) -> None:
    """Put a refused request into the trail, in a transaction of its own."""
    tenant, target = _target_of(actor, request.site_id)
    trail.record_denial(
        trail.Entry(
            Action.ACCESS_DENIED,
            actor.label,
            actor.kind,
            tenant=tenant,
            target=target,
            reason=str(refusal),
            result=refusal.code,
            data={"operation": request.operation[:60], "user": actor.user_id},
        )
    )


def cancel(actor: Actor, job_id: int, reason: str) -> Job:
    """Call a job off: at once where it is queued, at its next checkpoint where it runs.

    Raises NotVisible, Forbidden and WrongState; Invalid where no reason is given.
    """
    return _decide(actor, job_id, reason, lambda job: _cancel(actor, job, reason))


def retry(actor: Actor, job_id: int, reason: str) -> Job:
    """Queue a FAILED job again, and for staff an ORPHANED one, with fresh attempts.

    It keeps its code, payload, requester and key; the jobs that were called off with it come back. Raises
    NotVisible, Forbidden, WrongState, Invalid, and ApprovalRequired for what runs with an approval: that
    served one run.
    """
    return _decide(actor, job_id, reason, lambda job: _retry(actor, job, reason))


def resolve(actor: Actor, job_id: int, outcome: Status, reason: str) -> Job:
    """Close a job that waits for a person: ORPHANED or FAILED as RESOLVED, ORPHANED also as FAILED.

    Nothing is executed; the site is open again. Raises NotVisible, Forbidden, WrongState, Invalid.
    """
    return _decide(actor, job_id, reason, lambda job: _resolve(actor, job, outcome, reason))


def _decide(actor: Actor, job_id: int, reason: str, decide: Callable[[Job], Move]) -> Job:
    """Make the move that a person decides for one job, whose row is locked meanwhile."""
    seen = job_visible_to(actor, job_id)
    request = JobRequest(seen.job_type, seen.site_id or 0, reason=reason)
    try:
        with transaction.atomic():
            held = transitions.hold([seen.pk])
            if not held.jobs:
                raise NotVisible(f"{seen.code} was removed meanwhile.")
            (job,) = held.jobs
            _require_reason(job, reason)
            transitions.apply([decide(job)], held)
            return job
    except Refused as refusal:
        if not _inside_callers_transaction():
            record_refusal(actor, request, refusal)
        raise


def _retry(actor: Actor, job: Job, reason: str) -> Move:
    if job.site is None:
        raise NotVisible(f"{job.code} belongs to no site.")
    operation = registry.operation(job.job_type)
    authorization.require(actor, operation, job.site)
    if not actor.may_operate:
        # What only staff may ask for is not had by asking for it again.
        operation.require_asker(actor, validated_payload(operation, job.payload))
    if job.status == Status.ORPHANED and not actor.may_operate:
        raise Forbidden(f"Only staff may decide what becomes of {job.code}; ask the hosting company.")
    if job.status not in (Status.FAILED, Status.ORPHANED):
        raise WrongState(_why_not_again(actor, job))
    if operation.needs_plan:
        raise ApprovalRequired(
            f"{job.code} ran with an approval that served one run. Ask for the {operation.title} again; "
            "its new plan needs a new approval."
        )
    values = {"scheduled_at": database_now(), "attempt": 0, "error_code": "", "error_message": ""}
    return Move(job, Status.QUEUED, Line(EventType.RETRY, reason), actor.label, actor.kind, values)


def _why_not_again(actor: Actor, job: Job) -> str:
    if job.status == Status.CANCELLED and job.cancelled_with is not None:
        seen = jobs_visible_to(actor).filter(pk=job.cancelled_with.pk).exists()
        cause = job.cancelled_with.code if seen else dependencies.OF_ANOTHER
        return f"{job.code} was called off with {cause}; retry that one, and it comes back."
    return f"{job.code} is {job.get_status_display()}; only a failed or orphaned job can be retried."


def _resolve(actor: Actor, job: Job, outcome: Status, reason: str) -> Move:
    if not actor.may_operate:
        raise Forbidden(f"Only staff may resolve {job.code}; ask the hosting company.")
    waits = job.status in (Status.ORPHANED, Status.FAILED)
    if not waits or outcome not in (Status.RESOLVED, Status.FAILED) or not may_move(job.status, outcome):
        raise WrongState(f"{job.code} is {job.get_status_display()}; it cannot be resolved as {outcome}.")
    event = EventType.RESOLVED if outcome == Status.RESOLVED else EventType.FAILED
    return Move(job, outcome, Line(event, reason), actor.label, actor.kind)


def _require_reason(job: Job, reason: str) -> None:
    if not reason.strip():
        raise Invalid("Say why; the reason is kept in the job's history and in the audit trail.")
    require_bounds(JobRequest(job.job_type, job.site_id or 0, reason=reason), database_now())


def _accept(actor: Actor, request: JobRequest, together: int = 1) -> _Accepted:
    """Check a request, one of so many that are submitted together."""
    operation = registry.operation(request.operation)
    site = authorization.authorize(actor, operation, request.site_id)
    require_bounds(request, database_now())
    payload = validated_payload(operation, request.payload)
    operation.require_asker(actor, payload)
    policy = policy_of(operation)
    priority = authorization.require_priority(actor, request.priority, policy.priority)
    key = _key(actor, request, operation)
    return _Accepted(
        actor=actor,
        request=request,
        operation=operation,
        site=site,
        payload=payload,
        priority=priority,
        policy=policy,
        key=key,
        fingerprint=_fingerprint(request, payload, together),
    )


def _key(actor: Actor, request: JobRequest, operation: Operation) -> str | None:
    if request.system_key:
        return request.system_key
    if not request.idempotency_key:
        return None
    who = f"user{actor.user_id}" if actor.user_id is not None else actor.label
    return f"client:{who}:{operation.name}:{request.site_id}:{request.idempotency_key}"


def _fingerprint(request: JobRequest, payload: Payload, together: int) -> str:
    return digest(
        {
            "operation": request.operation,
            "site": request.site_id,
            "payload": payload.model_dump(mode="json"),
            "priority": request.priority,
            "scheduled_at": request.scheduled_at.isoformat() if request.scheduled_at else None,
            **({"after": sorted(request.after)} if request.after else {}),
            # The same key for a longer or shorter list is another body.
            **({"of": together} if together > 1 else {}),
        }
    )


def _named_parents(actor: Actor, accepted: Sequence[_Accepted]) -> dict[int, int | None]:
    """Give the jobs that these wait for, and their sites, whose gates come before their rows.

    Else who holds such a gate could wait for one of the rows, and hold another that is wanted here.
    """
    names = {name for one in accepted for name in one.request.after}
    keys = [key for name in names if (key := job_id_of(name)) is not None and 0 < key < 2**63]
    if not keys:
        return {}
    return dict(jobs_visible_to(actor).filter(pk__in=keys).order_by().values_list("pk", "site_id"))


def _parents(one: _Accepted, chained: Sequence[JobRequest], made: dict[int, Submission]) -> list[Job]:
    """Give the jobs that this one waits for, their rows locked: none can end unnoticed meanwhile."""
    by_label = {request.label: made[id(request)].job.pk for request in chained if id(request) in made}
    keys = [by_label[label] for label in chain.labels_of(one.request)]
    for name in one.request.after:
        if (key := job_id_of(name)) is not None:
            keys.append(job_visible_to(one.actor, key).pk)
    if not keys:
        return []
    parents = list(Job.objects.filter(pk__in=keys).select_for_update(of=("self",)).order_by("pk"))
    if len(parents) < len(set(keys)):
        raise NotVisible("A job that this one was to wait for was removed meanwhile.")
    for parent in parents:
        if parent.status in (Status.FAILED, Status.CANCELLED):
            raise NotReady(f"{parent.code} is {parent.get_status_display()}; what waits for it never starts.")
    return parents


def _create(
    accepted: _Accepted, held: Gates, chained: Sequence[JobRequest], made: dict[int, Submission]
) -> Submission:
    earlier = _earlier(accepted)
    if earlier is not None:
        return Submission(earlier, created=False)
    parents = _parents(accepted, chained, made)
    # Behind the key: the same request gives the same job also when it could not be made any more.
    intention = _intention(accepted, parents)
    now = database_now()
    try:
        # A savepoint: whoever loses the race for a key still has a transaction to read the winner in.
        with transaction.atomic() if accepted.key is not None else nullcontext():
            job = _insert(accepted, intention, now, held, parents)
    except IntegrityError:
        winner = _earlier(accepted)
        if winner is None:
            raise
        return Submission(winner, created=False)
    names = ", ".join(dependencies.named_for(job, parent) for parent in parents)
    waits = f", after {names}" if parents else ""
    events.append(job, [Line(EventType.CREATED, f"asked for by {accepted.actor.label}{waits}")], now)
    if job.readiness == Readiness.READY:
        bell.ring()
    return Submission(job, created=True)


def _intention(accepted: _Accepted, parents: list[Job]) -> Intention:
    try:
        return accepted.operation.intend(accepted.site, accepted.payload)
    except NotReady:
        # What it waits for may be what makes it possible; it is looked at again before it runs.
        if not parents or accepted.operation.needs_plan:
            raise
        return Intention(())


def _earlier(accepted: _Accepted) -> Job | None:
    if accepted.key is None:
        return None
    job = Job.objects.select_related("site", "customer", "plan").filter(idempotency_key=accepted.key).first()
    if job is not None and job.fingerprint != accepted.fingerprint:
        raise KeyConflict(
            f"The idempotency key was used for {job.code} with another body. Send a new key for a new job."
        )
    used = UsedKey.objects.filter(key=accepted.key).first() if job is None else None
    if used is not None:
        raise KeyConflict(
            f"The idempotency key was used for {used.job_code}, which has ended and is no longer kept. "
            "Send a new key for a new job."
        )
    return job


def _insert(accepted: _Accepted, intention: Intention, now: datetime, held: Gates, parents: list[Job]) -> Job:
    frozen = _plan(accepted, intention)
    policy, profile, site = accepted.policy, accepted.operation.profile, accepted.site
    key = accepted.key
    if key is None and frozen is not None:
        key = f"{frozen.kind}:{frozen.code}"
    job = Job(
        job_type=accepted.operation.name,
        category=profile.category,
        priority=accepted.priority,
        site=site,
        customer=site.customer,
        server=site.server,
        plan=frozen,
        payload=accepted.payload.model_dump(mode="json"),
        requested_by=accepted.actor.name,
        requested_kind=accepted.actor.kind,
        requested_by_user_id=accepted.actor.user_id,
        reason=clean_text(accepted.request.reason),
        idempotency_key=key,
        fingerprint=accepted.fingerprint,
        created_at=now,
        # A time in the past would only jump the order of those who ask for now.
        scheduled_at=max(accepted.request.scheduled_at or now, now),
        max_attempts=policy.max_attempts,
        retry_delays=list(policy.retry_delays),
        timeout_seconds=policy.timeout_seconds,
        stale_seconds=policy.stale_seconds,
        on_lost=policy.on_lost,
        lock=profile.lock,
        mutating=profile.mutating,
        heavy=",".join(profile.heavy),
        brief=profile.brief,
    )
    waits = any(parent.status not in SATISFIED for parent in parents)
    for name, value in readiness.placed(job, held, now, Turns(), waits=waits).items():
        setattr(job, name, value)
    job.save(force_insert=True)
    JobDependency.objects.bulk_create([JobDependency(job=job, parent=parent) for parent in parents])
    return job


def _plan(accepted: _Accepted, intention: Intention) -> Plan | None:
    if not accepted.operation.needs_plan:
        return None
    return plan.approved(accepted.actor, accepted.operation, accepted.site, accepted.payload, intention)


def _entries(accepted: _Accepted, job: Job) -> list[trail.Entry]:
    data = {"type": job.job_type, "site": job.site_id, "face": accepted.actor.face}
    common = {"tenant": accepted.site.customer.code, "reason": accepted.request.reason}
    actor = accepted.actor
    entries = []
    if job.plan is not None:
        facts = {"digest": job.plan.digest, "job": job.code}
        entries = [
            trail.Entry(
                action, actor.label, actor.kind, target=job.plan.code, result="done", data=facts, **common
            )
            for action in (Action.PLAN_CREATED, Action.PLAN_APPROVED)
        ]
    entries.append(
        trail.Entry(
            Action.JOB_ENQUEUED,
            actor.label,
            actor.kind,
            target=job.code,
            result=Status.QUEUED,
            data=data,
            **common,
        )
    )
    return entries


def _cancel(actor: Actor, job: Job, reason: str) -> Move:
    if job.site is None:
        raise NotVisible(f"{job.code} belongs to no site.")
    # A job of a type that is no longer installed can still be called off, by staff.
    operation = registry.operations().get(job.job_type)
    if operation is not None:
        # The right alone: a site that has lost the capability is one whose work is to be stopped.
        authorization.require_right(actor, operation, job.site)
    elif not actor.may_operate:
        raise Forbidden(f"Only staff may cancel {job.code}: its type {job.job_type} is no longer installed.")
    if job.status == Status.QUEUED:
        return Move(job, Status.CANCELLED, Line(EventType.CANCELLED, reason), actor.label, actor.kind)
    if job.status == Status.RUNNING:
        line = Line(EventType.CANCEL_REQUESTED, reason)
        return Move(job, Status.CANCEL_REQUESTED, line, actor.label, actor.kind)
    raise WrongState(
        f"{job.code} is {job.get_status_display()}; only a queued or running job can be cancelled."
    )


def _target_of(actor: Actor, site_id: int) -> tuple[str, str]:
    """Name tenant and target of a refusal; the trail, unlike the answer, may say whose site it was."""
    site = Site.objects.select_related("customer").filter(pk=_as_key(site_id)).first()
    if site is None:
        return "", f"site:{str(site_id)[:40]} (none)"
    mine = bool(rights_on(actor, site))
    return site.customer.code if mine else "", f"site:{site.pk} of {site.customer.code}"


def _as_key(site_id: object) -> int:
    return site_id if isinstance(site_id, int) and 0 < site_id < 2**63 else 0


def _inside_callers_transaction() -> bool:
    return not trail.may_record_denial()


__all__ = [
    "Preview",
    "Submission",
    "cancel",
    "preview",
    "record_refusal",
    "resolve",
    "retry",
    "submit",
    "submit_chain",
]
