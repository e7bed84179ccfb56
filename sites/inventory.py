"""Changes of inventory records. Each authorises, writes and audits; nothing else writes these tables."""

from collections.abc import Mapping

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from accounts.actor import Actor
from accounts.models import Customer
from accounts.record_changes import require_operator
from audit import trail
from audit.actions import Action
from sites import capabilities
from sites.exceptions import SiteRefused
from sites.models import Server, Site, SiteState
from sites.names import DomainName, InvalidDomain, normalise_domain


def add_server(actor: Actor, server: Server) -> Server:
    """Put a server into the inventory. Raises NotAllowed, and ValidationError for bad fields."""
    require_operator(actor, "add servers", f"server:{server.name}")
    with transaction.atomic():
        server.full_clean()
        server.save()
        trail.record(_entry(Action.RECORD_CREATED, actor, "", f"server:{server.name}", {}))
    return server


def add_site(actor: Actor, customer: Customer, server: Server, domain: str, preset: str = "FULL") -> Site:
    """Put a site into the inventory, in state PROVISIONING; the PROVISION job makes it real.

    Raises NotAllowed, or SiteRefused naming what is wrong with domain, preset or the customer's quota.
    """
    require_operator(actor, "add sites", f"customer:{customer.code}")
    name = _normalised(domain)
    granted = _preset(preset)
    try:
        with transaction.atomic():
            _require_quota(customer)
            site = Site(customer=customer, server=server, domain=name.ascii, capabilities=granted)
            site.display_domain = name.unicode
            site.full_clean(exclude=["display_domain"])
            site.save()
            data = {"domain": site.domain, "server": server.name, "preset": preset}
            trail.record(_entry(Action.RECORD_CREATED, actor, customer.code, f"site:{site.pk}", data))
            return site
    except (ValidationError, IntegrityError) as error:
        raise SiteRefused(f"{domain!r} cannot be added: {_reason(error)}") from error


def set_capabilities(actor: Actor, site: Site, names: list[str]) -> Site:
    """Change what may be done to a site. Raises NotAllowed, or SiteRefused for an unknown capability."""
    require_operator(actor, "change capabilities", f"site:{site.pk}")
    try:
        wanted = capabilities.normalised(names)
    except ValueError as error:
        raise SiteRefused(str(error)) from error
    with transaction.atomic():
        Site.objects.filter(pk=site.pk).update(capabilities=wanted)
        data = {"before": site.capabilities, "after": wanted}
        trail.record(_entry(Action.POLICY_CHANGED, actor, site.customer.code, f"site:{site.pk}", data))
    site.capabilities = wanted
    return site


def _normalised(domain: str) -> DomainName:
    try:
        return normalise_domain(
            domain, own_hosts=settings.CHP_OWN_HOSTS, allow_test=settings.CHP_ALLOW_TEST_DOMAINS
        )
    except InvalidDomain as error:
        raise SiteRefused(str(error)) from error


def _preset(preset: str) -> list[str]:
    if preset not in capabilities.PRESETS:
        known = ", ".join(capabilities.PRESETS)
        raise SiteRefused(f"{preset!r} is not a preset of capabilities; choose from {known}.")
    return [capability.value for capability in capabilities.PRESETS[preset]]


def _require_quota(customer: Customer) -> None:
    # The customer's row is locked so that two additions at once cannot both see the last free place.
    locked = Customer.objects.select_for_update().select_related(None).get(pk=customer.pk)
    used = Site.objects.filter(customer=locked).exclude(state=SiteState.DELETED).count()
    if used >= locked.plan.most_sites:
        raise SiteRefused(
            f"{locked.name} has {used} sites, as many as its plan {locked.plan.name} grants. "
            "Change the plan or remove a site."
        )


def _reason(error: ValidationError | IntegrityError) -> str:
    if isinstance(error, ValidationError):
        return " ".join(error.messages)
    return "it was added by someone else at the same moment."


def _entry(action: Action, actor: Actor, tenant: str, target: str, data: Mapping[str, object]) -> trail.Entry:
    return trail.Entry(
        action, actor.label, actor.kind, tenant=tenant, target=target, result="done", data=data
    )
