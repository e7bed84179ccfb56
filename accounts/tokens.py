"""API tokens: made at login, stored as digests, audited."""

from datetime import datetime
from typing import Any

from django.db import transaction
from knox.models import get_token_model

from accounts.actor import actor_for
from accounts.models import User
from audit import trail
from audit.actions import Action


def issue(user: Any) -> tuple[str, datetime | None]:
    """Make a token for a user who has just proven who they are; give it, this once, with its expiry."""
    with transaction.atomic():
        row, token = get_token_model().objects.create(user=user)
        _record(Action.TOKEN_CREATED, user, row.token_key)
    return token, row.expiry


def revoke(user: Any, row: Any) -> None:
    """End a token."""
    with transaction.atomic():
        key = row.token_key
        row.delete()
        _record(Action.TOKEN_REVOKED, user, key)


def _record(action: Action, user: User, token_key: str) -> None:
    actor = actor_for(user, "api")
    trail.record(
        trail.Entry(
            action,
            actor.label,
            actor.kind,
            target=f"token:{token_key}",
            result="done",
            data={"user": user.pk},
        )
    )
