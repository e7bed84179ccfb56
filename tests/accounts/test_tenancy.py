"""Customers and memberships change only through functions that authorise and audit."""

import pytest
from django.core.exceptions import ValidationError

from accounts.actor import actor_for, operator
from accounts.exceptions import NotAllowed
from accounts.models import Customer, HostingPlan, Membership
from accounts.roles import Right, Role, rights_of
from accounts.tenancy import create_customer, remove_member, set_role
from audit.actions import Action
from audit.models import AuditEntry
from sites.queries import rights_on, sites_visible_to
from tests.cast import Cast

pytestmark = pytest.mark.django_db


def _last() -> AuditEntry:
    return AuditEntry.objects.latest("sequence")


def test_a_customer_is_made_and_recorded(cast: Cast) -> None:
    made = create_customer(operator("root"), "new", "New Customer", cast.customer.plan)
    entry = _last()
    assert Customer.objects.get(code="new") == made
    assert (entry.action, entry.target, entry.actor) == (
        Action.RECORD_CREATED,
        "customer:new",
        "root (command)",
    )


def test_a_taken_or_malformed_code_leaves_nothing(cast: Cast) -> None:
    entries = AuditEntry.objects.count()
    for code in (cast.customer.code, "two words", ""):
        with pytest.raises(ValidationError):
            create_customer(operator("root"), code, "Name", cast.customer.plan)
    assert AuditEntry.objects.count() == entries


@pytest.mark.parametrize("who", ["owner", "onlooker"])
def test_who_may_not_operate_changes_no_tenancy_and_the_try_is_recorded(cast: Cast, who: str) -> None:
    actor = actor_for(getattr(cast, who), "panel")
    with pytest.raises(NotAllowed):
        create_customer(actor, "mine", "Mine", cast.customer.plan)
    with pytest.raises(NotAllowed):
        set_role(actor, cast.customer, cast.stranger, Role.OWNER)
    with pytest.raises(NotAllowed):
        remove_member(actor, cast.viewer.memberships.get())
    denials = AuditEntry.objects.filter(action=Action.ACCESS_DENIED)
    assert denials.count() == 3
    assert Membership.objects.filter(user=cast.viewer).exists()


def test_a_role_is_given_changed_and_taken(cast: Cast) -> None:
    staff = actor_for(cast.staff, "admin")
    member = set_role(staff, cast.customer, cast.stranger, Role.VIEWER)
    assert _last().action == Action.RECORD_CREATED
    set_role(staff, cast.customer, cast.stranger, Role.OPERATOR)
    assert _last().action == Action.RECORD_CHANGED
    assert Right.BACKUP in rights_on(actor_for(cast.stranger, "panel"), cast.site)
    remove_member(staff, member)
    assert _last().action == Action.RECORD_DELETED
    assert rights_on(actor_for(cast.stranger, "panel"), cast.site) == frozenset()


def test_rights_of_roles_are_ordered_and_an_unknown_role_has_none() -> None:
    assert rights_of("VIEWER") < rights_of("OPERATOR") < rights_of("OWNER")
    assert rights_of("") == rights_of("ADMIN") == frozenset()
    assert Right.MANAGE not in rights_of("OWNER")


def test_nobody_in_particular_sees_no_site(cast: Cast) -> None:
    assert not sites_visible_to(actor_for(None, "api")).exists()
    cast.staff.is_active = False
    assert not sites_visible_to(actor_for(cast.staff, "admin")).exists()


@pytest.mark.parametrize("code", ["starter", "business", "professional", "business-plus", "premium"])
def test_the_five_hosting_plans_are_rows(code: str) -> None:
    assert HostingPlan.objects.get(code=code).freshness_hours == 24
