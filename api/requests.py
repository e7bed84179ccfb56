"""From an HTTP request to the pipeline: who asks, the body, the idempotency key."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import RequestDataTooBig
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.actor import Actor, actor_for
from api.serializers import ChainedJobSerializer, JobSerializer, ReasonSerializer, WishSerializer
from jobs import chain, pipeline, waiting
from jobs.exceptions import InvalidPayload, Refused
from jobs.models import Job
from jobs.profile import Priority
from jobs.relations import related_to
from jobs.request import JobRequest


def actor_of(request: Request) -> Actor:
    """Give who asks."""
    return actor_for(request.user, "api")


def body_of(request: Request, shape: type[WishSerializer], operation: str, site_id: int) -> dict[str, Any]:
    """Give the checked body. A body that cannot be taken is a refusal, and is recorded as one."""
    try:
        serializer = shape(data=request.data)
        serializer.is_valid(raise_exception=True)
    except (APIException, RequestDataTooBig) as error:
        _record(request, JobRequest(operation, site_id), error)
        raise
    return dict(serializer.validated_data)


def reason_of(request: Request) -> str:
    """Give the reason in the body."""
    serializer = ReasonSerializer(data=request.data)
    serializer.is_valid(raise_exception=True)
    return str(serializer.validated_data["reason"])


def submit(
    request: Request, operation: str, site_id: int, payload: Mapping[str, Any], wish: Mapping[str, Any]
) -> Response:
    """Ask the pipeline for a job and answer 202 with it. Raises jobs.exceptions.Refused."""
    key = request.headers.get("Idempotency-Key", "")
    wished = JobRequest(operation=operation, site_id=site_id, payload=payload, **_common(wish, key))
    return answer_with(request, pipeline.submit(actor_of(request), wished).job)


def submit_chain(request: Request) -> Response:
    """Ask the pipeline for several jobs and answer 201 with all of them.

    Raises jobs.exceptions.Refused or ValidationError, which name the request at fault by its place.
    """
    wishes = _chain_of(request)
    key = request.headers.get("Idempotency-Key", "")
    chained = [_chained(wish, f"{key}.{at}" if key else "") for at, wish in enumerate(wishes)]
    try:
        made = pipeline.submit_chain(actor_of(request), chained)
    except Refused as refusal:
        raise _named(refusal, chained) from refusal
    jobs: Any = [submission.job for submission in made]
    return Response(JobSerializer(jobs, many=True, context=context_of(request, jobs)).data, status=201)


def answer_with(request: Request, job: Job) -> Response:
    """Give 202 with the job and where to follow it."""
    context = context_of(request, [job])
    location = request.build_absolute_uri(f"/api/v1/jobs/{job.code}/")
    return Response(JobSerializer(job, context=context).data, status=202, headers={"Location": location})


def context_of(request: Request, jobs: Iterable[Job]) -> dict[str, Any]:
    """Give what the serializer tells of jobs besides their rows, read for a whole page at once."""
    page = list(jobs)
    actor = actor_of(request)
    related = related_to(page, actor)
    return {"request": request, "waiting": waiting.explain(page, actor), "related": related}


def _common(wish: Mapping[str, Any], key: str) -> dict[str, Any]:
    priority = wish["priority"]
    return {
        "priority": None if priority is None else Priority[priority],
        "scheduled_at": wish["scheduled_at"],
        "idempotency_key": key,
        "reason": wish["reason"],
    }


def _chained(wish: Mapping[str, Any], key: str) -> JobRequest:
    return JobRequest(
        operation=wish["operation"],
        site_id=wish["site"],
        payload=wish["payload"],
        label=wish["label"],
        after=tuple(wish["after"]),
        **_common(wish, key),
    )


def _chain_of(request: Request) -> list[dict[str, Any]]:
    """Give the checked bodies of a chain; every error is at the place of its request in the list."""
    try:
        if not isinstance(request.data, list):
            raise ValidationError("A chain is a list of jobs.")
        # No more than can be too many by one: a small body can hold a great many of them.
        shapes = [ChainedJobSerializer(data=one) for one in request.data[: chain.MOST_JOBS + 1]]
        errors = {str(at): shape.errors for at, shape in enumerate(shapes) if not shape.is_valid()}
        if errors:
            raise ValidationError(errors)
        chain.require_size(len(request.data))
    except Refused as refusal:
        pipeline.record_refusal(actor_of(request), JobRequest("", 0), refusal)
        raise
    except (APIException, RequestDataTooBig) as error:
        _record(request, JobRequest("", 0), error)
        raise
    return [dict(shape.validated_data) for shape in shapes]


def _named(refusal: Refused, chained: list[JobRequest]) -> Refused:
    """Give the refusal of a chain with the place of the request at fault, where it is one's."""
    at = refusal.position
    if at is None:
        return refusal
    label = f", {chained[at].label!r}" if chained[at].label else ""
    inner = [{**error, "key": f"{at}.payload.{error['key']}"} for error in refusal.errors]
    errors = inner or [{"key": str(at), "message": str(refusal)}]
    return type(refusal)(f"Nothing was queued. Request {at}{label}: {refusal}", errors=errors)


def _record(request: Request, asked: JobRequest, error: APIException | RequestDataTooBig) -> None:
    pipeline.record_refusal(actor_of(request), asked, InvalidPayload(_sentence(error)))


def _sentence(error: APIException | RequestDataTooBig) -> str:
    said = error.detail if isinstance(error, APIException) else "it is too large"
    return f"the body was refused: {str(said)[:300]}"
