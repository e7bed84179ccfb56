"""How a record of policy is changed: authorised, validated, saved and audited as one."""

from typing import Any

from django.db import models, transaction
from django.forms.models import model_to_dict

from accounts.actor import Actor
from accounts.exceptions import NotAllowed
from audit import trail
from audit.actions import Action


def require_operator(actor: Actor, act: str, target: str) -> None:
    """Raise NotAllowed unless the actor may operate; the refusal is in the trail then.

    Inside a transaction of the caller's, which the refusal rolls back, it is not recorded.
    """
    if actor.may_operate:
        return
    if trail.may_record_denial():
        entry = trail.Entry(
            Action.ACCESS_DENIED, actor.label, actor.kind, target=target, reason=act, result="denied"
        )
        trail.record_denial(entry)
    raise NotAllowed(f"{actor.name} may not {act}. Ask a member of staff who may.")


def save_policy(actor: Actor, row: models.Model, target: str, tenant: str = "") -> None:
    """Validate and save a row, and record what of it changed. Raises ValidationError.

    Whether the actor may is asked before, by `require_operator`.
    """
    with transaction.atomic():
        stored = type(row)._default_manager.select_for_update().filter(pk=row.pk).first()
        row.full_clean()
        row.save()
        before = model_to_dict(stored) if stored else {}
        trail.record(
            trail.Entry(
                Action.POLICY_CHANGED,
                actor.label,
                actor.kind,
                tenant=tenant,
                target=target,
                result="changed" if stored else "created",
                data=_changed(before, model_to_dict(row)),
            )
        )


def _changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, object]:
    names = [name for name, value in after.items() if before.get(name) != value and name != "id"]
    return {name: {"before": before.get(name), "after": after[name]} for name in names}
