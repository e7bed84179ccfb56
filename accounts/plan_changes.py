"""Changes of hosting plans, and of which one a customer has. Each authorises, writes and audits."""

from accounts.actor import Actor
from accounts.models import Customer, HostingPlan
from accounts.record_changes import require_operator, save_policy


def save_plan(actor: Actor, plan: HostingPlan) -> HostingPlan:
    """Add or change a hosting plan. Raises NotAllowed, and ValidationError for values out of bounds."""
    target = f"hosting-plan:{plan.code}"
    require_operator(actor, "change hosting plans", target)
    save_policy(actor, plan, target)
    return plan


def set_plan(actor: Actor, customer: Customer, plan: HostingPlan) -> Customer:
    """Give a customer another hosting plan. Raises NotAllowed."""
    target = f"customer:{customer.code}"
    require_operator(actor, "change the hosting plan of customers", target)
    customer.plan = plan
    save_policy(actor, customer, target, tenant=customer.code)
    return customer
