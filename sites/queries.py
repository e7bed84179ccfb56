"""Scoped look-ups: the look-up is the permission to see."""

from django.db.models import QuerySet

from accounts.actor import Actor, ActorKind
from accounts.models import Membership
from accounts.roles import STAFF_RIGHTS, Right, rights_of
from sites.exceptions import SiteNotFound
from sites.models import Site, SiteState
from sites.names import InvalidDomain, normalise_domain

SEES_ALL = frozenset({ActorKind.STAFF, ActorKind.OPERATOR, ActorKind.SYSTEM})


def visible_customers(actor: Actor) -> QuerySet[Membership]:
    """Give the memberships that make rows visible to a customer's user."""
    return Membership.objects.filter(user_id=actor.user_id or 0, user__is_active=True)


def sites_visible_to(actor: Actor) -> QuerySet[Site]:
    """Give the sites this actor may see; nobody in particular sees none."""
    sites = Site.objects.select_related("customer", "server")
    if actor.kind in SEES_ALL:
        return sites
    if actor.kind is not ActorKind.CUSTOMER:
        return sites.none()
    return sites.filter(customer__in=visible_customers(actor).values("customer_id"))


def site_visible_to(actor: Actor, site_id: int) -> Site:
    """Give one site by id. Raises SiteNotFound for a foreign one as for a missing one."""
    try:
        return sites_visible_to(actor).get(pk=site_id)
    except (Site.DoesNotExist, ValueError, OverflowError) as error:
        raise SiteNotFound(f"There is no site {site_id}.") from error


def site_named(actor: Actor, domain: str) -> Site:
    """Give the living site of this domain in any spelling. Raises SiteNotFound."""
    try:
        name = normalise_domain(domain, allow_test=True)
        return sites_visible_to(actor).exclude(state=SiteState.DELETED).get(domain=name.ascii)
    except (InvalidDomain, Site.DoesNotExist) as error:
        raise SiteNotFound(f"There is no site {domain[:253]!r}.") from error


def rights_on(actor: Actor, site: Site) -> frozenset[Right]:
    """Give what this actor may ask for on this site, read afresh from the database."""
    if actor.kind in SEES_ALL:
        return STAFF_RIGHTS if actor.may_operate else frozenset({Right.VIEW})
    if actor.kind is not ActorKind.CUSTOMER:
        return frozenset()
    role = (
        visible_customers(actor).filter(customer_id=site.customer_id).values_list("role", flat=True).first()
    )
    return rights_of(role or "")
