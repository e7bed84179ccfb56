"""Logins, logouts and refused logins, put into the trail. The only receivers of Django's login signals."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import transaction
from django.http import HttpRequest

from accounts.actor import Actor, ActorKind, actor_for
from accounts.models import User
from audit import trail
from audit.actions import Action

FACES = ("admin", "api", "panel")
LONGEST_NAME = 150


def connect() -> None:
    """Receive the signals from now on; called once, when the apps are ready."""
    user_logged_in.connect(_note_login, dispatch_uid="login_audit")
    user_logged_out.connect(_note_logout, dispatch_uid="login_audit")
    user_login_failed.connect(_note_failure, dispatch_uid="login_audit")


def _note_login(*, request: HttpRequest | None, user: User, **_: Any) -> None:
    _record(_entry(Action.LOGIN_SUCCEEDED, actor_for(user, _face(request)), user.username, "done", request))


def _note_logout(*, request: HttpRequest | None, user: User | None, **_: Any) -> None:
    if user is not None:
        _record(_entry(Action.LOGOUT, actor_for(user, _face(request)), user.username, "done", request))


def _note_failure(*, credentials: Mapping[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    # Who tried is not known; the name is what was typed, and of the rest nothing is looked at.
    name = str(credentials.get("username") or "")[:LONGEST_NAME]
    actor = Actor(ActorKind.ANONYMOUS, "anonymous", _face(request))
    entry = _entry(Action.LOGIN_FAILED, actor, name, "denied", request)
    if trail.may_record_denial():
        trail.record_denial(entry)
    else:
        _record(entry)


def _record(entry: trail.Entry) -> None:
    with transaction.atomic():
        trail.record(entry)


def _entry(action: Action, actor: Actor, name: str, result: str, request: HttpRequest | None) -> trail.Entry:
    address = request.META.get("REMOTE_ADDR", "") if request else ""
    target = f"user:{name}"
    return trail.Entry(
        action, actor.label, actor.kind, target=target, result=result, data={"address": address}
    )


def _face(request: HttpRequest | None) -> str:
    match = request.resolver_match if request else None
    return next((face for face in FACES if match and face in match.namespaces), "panel")
