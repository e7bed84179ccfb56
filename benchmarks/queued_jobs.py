"""Sites of a few customers, and the benchmark's jobs on them, submitted as every face submits."""

from dataclasses import dataclass

from django.db import transaction

from accounts.actor import operator
from accounts.models import Customer, HostingPlan
from benchmarks.operations import BenchNoop, BenchSleep
from jobs import pipeline
from jobs.models import Job
from jobs.request import JobRequest
from sites.models import Server, Site, SiteState

ACTOR = operator("bench")
CUSTOMERS = 10
UNFINISHED = ("QUEUED", "RUNNING", "CANCEL_REQUESTED")


@dataclass(frozen=True)
class Tenancy:
    """A server and the sites on it, one per customer: jobs go round."""

    server: Server
    sites: tuple[Site, ...]

    def site_id(self, number: int) -> int:
        """Give the site on which the job of this number works."""
        return self.sites[number % len(self.sites)].pk


def make_tenancy() -> Tenancy:
    """Make the rows that jobs refer to."""
    plan = HostingPlan.objects.create(code="bench", name="Bench", most_sites=10_000)
    server = Server.objects.create(
        name="bench", agent_socket="/nonexistent/agent.sock", key_id="bench", web_address="127.0.0.1:9"
    )
    sites = []
    for number in range(CUSTOMERS):
        customer = Customer.objects.create(code=f"bench-{number}", name=f"Customer {number}", plan=plan)
        sites += make_sites(server, customer, f"c{number}", 1)
    return Tenancy(server, tuple(sites))


def make_sites(server: Server, customer: Customer, prefix: str, count: int) -> list[Site]:
    """Make active sites of one customer."""
    domains = [f"{prefix}-{number}.test" for number in range(count)]
    return [
        Site.objects.create(
            customer=customer, server=server, domain=domain, display_domain=domain, state=SiteState.ACTIVE
        )
        for domain in domains
    ]


def submit(tenancy: Tenancy, number: int, ms: float | None = None) -> Job:
    """Submit one job: a no-op, or a sleep of so many milliseconds. It is committed on return."""
    operation, length = (BenchNoop, {}) if ms is None else (BenchSleep, {"ms": ms})
    request = JobRequest(operation.name, tenancy.site_id(number), {"number": number, **length})
    return pipeline.submit(ACTOR, request).job


def submit_one_by_one(tenancy: Tenancy, count: int, first: int = 0, ms: float | None = None) -> None:
    """Submit `count` jobs, each in a transaction of its own."""
    for number in range(first, first + count):
        submit(tenancy, number, ms)


def submit_together(tenancy: Tenancy, count: int, first: int = 0, ms: float | None = None) -> None:
    """Submit `count` jobs in one transaction."""
    with transaction.atomic():
        submit_one_by_one(tenancy, count, first, ms)


def newest_key() -> int:
    """Give the key of the newest job, 0 where there is none."""
    return Job.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def count_unfinished(after: int = 0) -> int:
    """Count the jobs newer than this key that have not ended, as the store sees them."""
    return Job.objects.filter(pk__gt=after, status__in=UNFINISHED).count()
