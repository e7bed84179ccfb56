"""Ordering a new site: the inventory's row and the job that makes it real, both or neither."""

from dataclasses import dataclass

from django.db import transaction

from accounts.actor import Actor
from accounts.models import Customer
from jobs import pipeline
from jobs.exceptions import Refused
from jobs.models import Job
from jobs.request import JobRequest
from sites.inventory import add_site
from sites.models import Server, Site


@dataclass(frozen=True)
class Order:
    """What a new site needs. `domain` and `aliases` are names in any spelling."""

    customer: Customer
    server: Server
    domain: str
    preset: str = "FULL"
    aliases: tuple[str, ...] = ()


def order_site(actor: Actor, order: Order) -> tuple[Site, Job]:
    """Add the site and submit its PROVISION job. Raises SiteRefused or jobs.exceptions.Refused."""
    request = JobRequest("PROVISION", 0)
    try:
        with transaction.atomic():
            site = add_site(actor, order.customer, order.server, order.domain, order.preset)
            request = JobRequest("PROVISION", site.pk, {"aliases": list(order.aliases)})
            return site, pipeline.submit(actor, request).job
    except Refused as refusal:
        # The pipeline leaves the recording to whoever holds the transaction that is rolled back.
        pipeline.record_refusal(actor, request, refusal)
        raise
