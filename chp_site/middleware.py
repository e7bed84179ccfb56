"""What holds for every request, whichever face it is for."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from accounts.actor import actor_for
from audit import trail
from audit.actions import Action

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
DENIALS = frozenset({401, 403, 404})
Answer = Callable[[HttpRequest], HttpResponse]


def require_length(get_response: Answer) -> Answer:
    """Refuse bodies that do not say how long they are: Django would take them for empty ones."""

    def answer(request: HttpRequest) -> HttpResponse:
        if request.META.get("HTTP_TRANSFER_ENCODING"):
            return HttpResponse(
                "Send the body with a Content-Length.\n", status=411, content_type="text/plain; charset=utf-8"
            )
        return get_response(request)

    return answer


def record_denials(get_response: Answer) -> Answer:
    """Put a refused act of somebody who is logged in into the trail, where no deeper stage has done so.

    Refusals of strangers at the door are the business of the login's own records: otherwise anybody could
    fill the trail without an account.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        before = trail.denials_recorded()
        response = get_response(request)
        if (
            request.method not in SAFE
            and response.status_code in DENIALS
            and trail.denials_recorded() == before
        ):
            _record(request, response)
        return response

    return answer


def _record(request: HttpRequest, response: HttpResponse) -> None:
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated or not trail.may_record_denial():
        return
    face = request.path.split("/")[1]
    actor = actor_for(user, face if face in ("api", "admin") else "panel")
    trail.record_denial(
        trail.Entry(
            Action.ACCESS_DENIED,
            actor.label,
            actor.kind,
            target=f"{request.method} {request.path}",
            reason=response.reason_phrase,
            result=str(response.status_code),
        )
    )
