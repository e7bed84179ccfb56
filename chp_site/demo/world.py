"""The people and sites of the demo, made by the same functions that staff uses."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from accounts.actor import operator
from accounts.models import Customer, HostingPlan, User
from accounts.roles import Role
from accounts.tenancy import create_customer, set_role
from chp_site.demo import content
from chp_site.demo.processes import StartFailed
from chp_site.job_output import wait_for
from jobs.models import Job
from jobs.states import Status
from provisioning.ordering import Order, order_site
from sites.models import Server, Site

ACTOR = operator("demo")


@dataclass(frozen=True)
class Person:
    """A login of the demo. `customer` is a code, empty for staff."""

    name: str
    customer: str = ""
    role: Role = Role.OWNER


PEOPLE = (
    Person("admin"),
    Person("nora", "nordlicht"),
    Person("viktor", "nordlicht", Role.VIEWER),
    Person("hanna", "harbour"),
)
CUSTOMERS = (("nordlicht", "Nordlicht Bakery", "business"), ("harbour", "Harbour Press", "professional"))
SITES: tuple[tuple[str, str, Callable[[Path], None]], ...] = (
    ("nordlicht.test", "nordlicht", content.bakery),
    ("harbour-magazine.test", "harbour", content.magazine),
    ("copper-club.test", "nordlicht", content.club),
)


def make_people(password: str) -> None:
    """Make customers and logins, all with this password."""
    for code, name, plan in CUSTOMERS:
        create_customer(ACTOR, code, name, HostingPlan.objects.get(code=plan))
    for person in PEOPLE:
        if not person.customer:
            User.objects.create_superuser(person.name, password=password)
            continue
        user = User.objects.create_user(person.name, password=password)
        set_role(ACTOR, Customer.objects.get(code=person.customer), user, person.role)


def make_site(state: Path, domain: str, customer: str, fill: Callable[[Path], None]) -> tuple[Site, Job]:
    """Have a site provisioned by the worker and fill it. Raises StartFailed where that does not succeed."""
    server = Server.objects.get()
    site, job = order_site(ACTOR, Order(Customer.objects.get(code=customer), server, domain))
    job = wait_for(job, 60)
    if job.status != Status.SUCCESS:
        raise StartFailed(f"{job.code} PROVISION {domain}: {job.status} {job.error_message}")
    home = state / "sites" / str(site.pk)
    (home / "htdocs" / "index.html").unlink(missing_ok=True)
    fill(home)
    content.give_to_owner(home)
    site.refresh_from_db()
    return site, job
