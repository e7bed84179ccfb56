"""Scoped look-ups of backups, and the questions that are queries rather than columns."""

from django.db.models import QuerySet

from accounts.actor import Actor, ActorKind
from backups.exceptions import BackupNotFound
from backups.models import CODE, Backup, Fate, Integrity
from sites.models import Site
from sites.queries import SEES_ALL, visible_customers


def backups_visible_to(actor: Actor) -> QuerySet[Backup]:
    """Give the backups this actor may see, newest first."""
    backups = Backup.objects.select_related("site", "site__customer", "server", "job")
    if actor.kind in SEES_ALL:
        return backups
    if actor.kind is not ActorKind.CUSTOMER:
        return backups.none()
    return backups.filter(site__customer__in=visible_customers(actor).values("customer_id"))


def backup_visible_to(actor: Actor, code: str) -> Backup:
    """Give one backup by its code. Raises BackupNotFound for a foreign one as for a missing one."""
    backup = backups_visible_to(actor).filter(code=code).first() if CODE.fullmatch(code) else None
    if backup is None:
        raise BackupNotFound(f"There is no backup {code[:40]!r}.")
    return backup


def last_verified(site: Site) -> Backup | None:
    """Give the site's newest recovery point by the time of its snapshot."""
    verified = site.backups.filter(integrity=Integrity.VERIFIED).exclude(fate=Fate.DELETED)
    return verified.order_by("-created_at", "-pk").first()
