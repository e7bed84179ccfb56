"""Changes of people's records by staff. Each authorises, writes and audits; passwords are never told."""

from collections.abc import Mapping

from django.db import transaction

from accounts.actor import Actor
from accounts.models import User
from accounts.record_changes import require_operator
from audit import trail
from audit.actions import Action


def save_user(actor: Actor, user: User, changed: list[str]) -> User:
    """Save a person's record; `changed` names its changed fields. Raises NotAllowed."""
    target = f"user:{user.username}"
    require_operator(actor, "change people's records", target)
    action = Action.RECORD_CHANGED if user.pk else Action.RECORD_CREATED
    with transaction.atomic():
        user.save()
        data = {
            "fields": sorted(name for name in changed if "password" not in name),
            "staff": user.is_staff,
            "superuser": user.is_superuser,
            "active": user.is_active,
        }
        trail.record(trail.Entry(action, actor.label, actor.kind, target=target, result="done", data=data))
    return user


def record_rights(actor: Actor, user: User) -> None:
    """Record which rights a person has now, after a change of them."""
    data = {
        "permissions": sorted(user.user_permissions.values_list("codename", flat=True)),
        "groups": sorted(user.groups.values_list("name", flat=True)),
    }
    _record(actor, user, data)


def record_password_change(actor: Actor, user: User) -> None:
    """Record that somebody set a person's password; never what it is."""
    _record(actor, user, {"password_set": True})


def _record(actor: Actor, user: User, data: Mapping[str, object]) -> None:
    with transaction.atomic():
        trail.record(
            trail.Entry(
                Action.RECORD_CHANGED,
                actor.label,
                actor.kind,
                target=f"user:{user.username}",
                result="done",
                data=data,
            )
        )
