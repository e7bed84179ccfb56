"""From an HTTP request to the pipeline: who asks, the body, the idempotency key."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import RequestDataTooBig
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.actor import Actor, actor_for
from api.serializers import JobSerializer, WishSerializer
from jobs import pipeline, waiting
from jobs.exceptions import InvalidPayload
from jobs.models import Job
from jobs.profile import Priority
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
        asked = JobRequest(operation, site_id)
        pipeline.record_refusal(actor_of(request), asked, InvalidPayload(_sentence(error)))
        raise
    return dict(serializer.validated_data)


def submit(
    request: Request, operation: str, site_id: int, payload: Mapping[str, Any], wish: Mapping[str, Any]
) -> Response:
    """Ask the pipeline for a job and answer 202 with it. Raises jobs.exceptions.Refused."""
    priority = wish["priority"]
    submission = pipeline.submit(
        actor_of(request),
        JobRequest(
            operation=operation,
            site_id=site_id,
            payload=payload,
            priority=None if priority is None else Priority[priority],
            scheduled_at=wish["scheduled_at"],
            idempotency_key=request.headers.get("Idempotency-Key", ""),
            reason=wish["reason"],
        ),
    )
    return answer_with(request, submission.job)


def answer_with(request: Request, job: Job) -> Response:
    """Give 202 with the job and where to follow it."""
    context = {"request": request, "waiting": waiting.explain([job])}
    location = request.build_absolute_uri(f"/api/v1/jobs/{job.code}/")
    return Response(JobSerializer(job, context=context).data, status=202, headers={"Location": location})


def _sentence(error: APIException | RequestDataTooBig) -> str:
    said = error.detail if isinstance(error, APIException) else "it is too large"
    return f"the body was refused: {str(said)[:300]}"
