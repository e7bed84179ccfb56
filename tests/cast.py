"""The fixed cast of the tests: the same people and sites everywhere."""

from dataclasses import dataclass
from functools import cache

import pytest
from django.contrib.auth.hashers import make_password

from accounts.models import Customer, HostingPlan, Membership, User
from accounts.roles import Role
from sites.capabilities import READ_ONLY
from sites.models import Server, Site, SiteState

PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Cast:
    """Two tenants, their people, the hosting company's staff, and a few sites."""

    customer: Customer
    other_customer: Customer
    owner: User
    operator_member: User
    viewer: User
    stranger: User
    staff: User
    onlooker: User
    server: Server
    site: Site
    read_only_site: Site
    foreign_site: Site


@pytest.fixture
def cast(db: None) -> Cast:
    plan, _ = HostingPlan.objects.get_or_create(
        code="premium", defaults={"name": "Premium", "most_sites": 100}
    )
    ours = Customer.objects.create(code="ours", name="Our Customer", plan=plan)
    theirs = Customer.objects.create(code="theirs", name="Another Customer", plan=plan)
    server = Server.objects.create(
        name="web1", agent_socket="/nonexistent/agent.sock", key_id="web1", web_address="127.0.0.1:9"
    )
    return Cast(
        customer=ours,
        other_customer=theirs,
        owner=member("owner", ours, Role.OWNER),
        operator_member=member("operator", ours, Role.OPERATOR),
        viewer=member("viewer", ours, Role.VIEWER),
        stranger=member("stranger", theirs, Role.OWNER),
        staff=_user("staff", is_staff=True, is_superuser=True),
        onlooker=_user("onlooker", is_staff=True),
        server=server,
        site=site(ours, server, "shop.test"),
        read_only_site=site(ours, server, "museum.test", read_only=True),
        foreign_site=site(theirs, server, "foreign.test"),
    )


@cache
def _hashed() -> str:
    # Hashing is slow on purpose; once per process is enough for a cast of known passwords.
    return make_password(PASSWORD)


def _user(name: str, **more: bool) -> User:
    return User.objects.create(username=name, password=_hashed(), **more)


def member(name: str, customer: Customer, role: Role) -> User:
    """Make a user with one membership."""
    user = _user(name)
    Membership.objects.create(user=user, customer=customer, role=role)
    return user


def site(customer: Customer, server: Server, domain: str, *, read_only: bool = False) -> Site:
    """Make an active site."""
    more = {"capabilities": [capability.value for capability in READ_ONLY]} if read_only else {}
    return Site.objects.create(
        customer=customer,
        server=server,
        domain=domain,
        display_domain=domain,
        state=SiteState.ACTIVE,
        **more,
    )
