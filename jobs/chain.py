"""Chains: several jobs asked for in one call, each after others of the same call. Pure."""

from collections.abc import Sequence

from jobs.exceptions import Invalid
from jobs.models import job_id_of
from jobs.request import JobRequest

MOST_JOBS = 50


def ordered(requests: Sequence[JobRequest]) -> list[JobRequest]:
    """Give the requests so that each comes after those it waits for.

    Raises Invalid for a label that is missing, unknown or used twice, and for a circle, with its path.
    """
    require_size(len(requests))
    labelled = _labelled(requests)
    done: list[JobRequest] = []
    for request in requests:
        _visit(request, labelled, done, ())
    return done


def require_size(many: int) -> None:
    """Raise Invalid for a chain of nothing, or of too many jobs."""
    if not 1 <= many <= MOST_JOBS:
        raise Invalid(f"A chain has from 1 to {MOST_JOBS} jobs; this one has {many}.")


def labels_of(request: JobRequest) -> list[str]:
    """Give the labels among what a request waits for; the others are codes of jobs."""
    return [name for name in request.after if job_id_of(name) is None]


def _labelled(requests: Sequence[JobRequest]) -> dict[str, JobRequest]:
    found: dict[str, JobRequest] = {}
    for request in requests:
        if job_id_of(request.label) is not None:
            raise Invalid(f"{request.label} looks like the code of a job; choose another label.")
        if request.label and request.label in found:
            raise Invalid(f"Two jobs of the chain are labelled {request.label!r}.")
        found[request.label] = request
    return found


def _visit(
    request: JobRequest, labelled: dict[str, JobRequest], done: list[JobRequest], path: tuple[str, ...]
) -> None:
    if any(request is one for one in done):
        return
    if request.label and request.label in path:
        circle = " -> ".join([*path[path.index(request.label) :], request.label])
        raise Invalid(f"The jobs wait for each other in a circle: {circle}.")
    for name in labels_of(request):
        parent = labelled.get(name) if name else None
        if parent is None:
            known = ", ".join(sorted(filter(None, labelled))) or "none"
            raise Invalid(f"Nothing in this chain is labelled {name!r}. Labels are: {known}.")
        _visit(parent, labelled, done, (*path, request.label))
    done.append(request)
