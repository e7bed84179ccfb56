"""PROVISION: make a site real on its server: home, owner, document root, virtual host."""

from typing import ClassVar

from pydantic import Field

from accounts.roles import Right
from agent.declarations.hosting import CreateSite
from jobs.exceptions import AttemptFailed, InvalidPayload
from jobs.models import Job
from jobs.operation import Context, Intention, Operation, Payload, Result, Step
from jobs.profile import Category, Load, OnLost, Priority, Profile, SiteLock
from sites.capabilities import Capability
from sites.models import Site, SiteState
from sites.names import InvalidDomain, normalise_domain

HTTP_OK = range(200, 400)


class ProvisionPayload(Payload):
    """`aliases`: further names that the site answers to."""

    aliases: list[str] = Field(default_factory=list, max_length=20)


class ProvisionSite(Operation):
    """Safe to repeat: every step of it finds what is there already."""

    name: ClassVar[str] = "PROVISION"
    title: ClassVar[str] = "provisioning"
    right: ClassVar[Right] = Right.MANAGE
    capability: ClassVar[Capability] = Capability.MANAGE
    payload: ClassVar[type[Payload]] = ProvisionPayload
    profile: ClassVar[Profile] = Profile(
        category=Category.MAINTENANCE,
        lock=SiteLock.EXCLUSIVE,
        mutating=True,
        priority=Priority.NORMAL,
        attempts=1,
        timeout=600,
        on_lost=OnLost.ASK_JOURNAL,
        disk=Load.LOW,
    )

    def intend(self, site: Site, payload: ProvisionPayload) -> Intention:
        aliases = _aliases(payload)
        names = ", ".join([site.domain, *aliases])
        return Intention(
            (
                Step("home", f"Make home, owner and document root of {site} on {site.server}."),
                Step("web", f"Write and check the virtual host for {names}, then reload the web server."),
                Step("probe", "Ask the web server for the first page."),
            ),
            {"aliases": aliases},
        )

    def run(self, context: Context, payload: ProvisionPayload) -> Result:
        site = context.site
        declared = CreateSite(site_id=site.pk, domain=site.domain, aliases=tuple(_aliases(payload)))
        return context.agent("create", declared)

    def verify(self, context: Context, payload: ProvisionPayload, result: Result) -> None:
        if result["status"] not in HTTP_OK:
            raise AttemptFailed(
                f"{context.site} answers with HTTP status {result['status']}.", code="probe_failed"
            )

    def settle(self, job: Job, payload: ProvisionPayload, result: Result) -> None:
        Site.objects.filter(jobs=job).exclude(state=SiteState.DELETED).update(state=SiteState.ACTIVE)

    def settle_failure(self, job: Job, message: str, *, in_doubt: bool) -> None:
        unfinished = Site.objects.filter(jobs=job, state=SiteState.PROVISIONING)
        if not in_doubt:
            unfinished.update(state=SiteState.FAILED)


def _aliases(payload: ProvisionPayload) -> list[str]:
    try:
        return [normalise_domain(alias, allow_test=True, allow_www=True).ascii for alias in payload.aliases]
    except InvalidDomain as error:
        raise InvalidPayload(str(error), errors=[{"key": "aliases", "message": str(error)}]) from error
