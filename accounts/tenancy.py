"""Changes of tenancy records. Each authorises, writes and audits; nothing else writes these tables."""

from django.db import transaction

from accounts.actor import Actor
from accounts.models import Customer, HostingPlan, Membership, User
from accounts.record_changes import require_operator
from accounts.roles import Role
from audit import trail
from audit.actions import Action


def create_customer(actor: Actor, code: str, name: str, plan: HostingPlan) -> Customer:
    """Make a tenant. Raises NotAllowed, and ValidationError for a code that is taken or malformed."""
    require_operator(actor, "create customers", f"customer:{code}")
    with transaction.atomic():
        customer = Customer(code=code, name=name, plan=plan)
        customer.full_clean()
        customer.save()
        trail.record(_changed(Action.RECORD_CREATED, actor, customer, {"plan": plan.code}))
    return customer


def set_role(actor: Actor, customer: Customer, user: User, role: Role) -> Membership:
    """Make the user a member of the customer in this role, or change the role. Raises NotAllowed."""
    require_operator(actor, "change memberships", f"customer:{customer.code}")
    with transaction.atomic():
        membership, created = Membership.objects.update_or_create(
            customer=customer, user=user, defaults={"role": role.value}
        )
        action = Action.RECORD_CREATED if created else Action.RECORD_CHANGED
        trail.record(_changed(action, actor, customer, {"member": user.username, "role": role.value}))
    return membership


def remove_member(actor: Actor, membership: Membership) -> None:
    """End a membership. Raises NotAllowed."""
    customer = membership.customer
    require_operator(actor, "change memberships", f"customer:{customer.code}")
    with transaction.atomic():
        data = {"member": membership.user.username, "role": membership.role}
        membership.delete()
        trail.record(_changed(Action.RECORD_DELETED, actor, customer, data))


def _changed(action: Action, actor: Actor, customer: Customer, data: dict[str, str]) -> trail.Entry:
    return trail.Entry(
        action,
        actor.label,
        actor.kind,
        tenant=customer.code,
        target=f"customer:{customer.code}",
        result="done",
        data=data,
    )
