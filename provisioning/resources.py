"""Changes of resource records. Each authorises, writes and audits; nothing else writes this table."""

import re

from django.db import transaction
from django.db.models import QuerySet

from accounts.actor import Actor
from accounts.record_changes import require_operator
from audit import trail
from audit.actions import Action
from provisioning.exceptions import ResourceRefused
from provisioning.models import Resource, ResourceKind, ResourceState
from sites.models import Site

DATABASE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
SYSTEM_SCHEMAS = frozenset({"mysql", "sys", "performance_schema", "information_schema", "test"})


def databases_of(site: Site) -> QuerySet[Resource]:
    """Give the databases of a site that are in use."""
    return Resource.objects.filter(site=site, kind=ResourceKind.DATABASE, desired_state=ResourceState.ACTIVE)


def register_database(actor: Actor, site: Site, engine: str, name: str) -> Resource:
    """Note that an existing database belongs to a site, so that its backups include it.

    Raises ResourceRefused for an unknown engine, a name that is not plain, or another site's database.
    """
    require_operator(actor, "register databases", f"site:{site.pk}")
    if engine != "mariadb":
        raise ResourceRefused(f"{engine!r} is not a database engine here; mariadb is.")
    if not DATABASE_NAME.fullmatch(name) or name in SYSTEM_SCHEMAS or name.startswith("aria_"):
        raise ResourceRefused(f"{name[:80]!r} cannot be a database name: use a-z, 0-9 and _, first a letter.")
    with transaction.atomic():
        others = Resource.objects.filter(kind=ResourceKind.DATABASE, engine=engine, name=name)
        if others.filter(site__server=site.server).exclude(site=site).exists():
            raise ResourceRefused(f"Database {name} on {site.server} already belongs to another site.")
        resource, _ = Resource.objects.get_or_create(
            site=site,
            kind=ResourceKind.DATABASE,
            engine=engine,
            name=name,
            defaults={"observed_state": ResourceState.ACTIVE},
        )
        trail.record(
            trail.Entry(
                Action.RECORD_CREATED,
                actor.label,
                actor.kind,
                tenant=site.customer.code,
                target=f"site:{site.pk}",
                result="done",
                data={"database": name, "engine": engine},
            )
        )
    return resource
