"""hosting-backup-list: the backups of one site or of all."""

from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from backups.models import Backup, Integrity
from backups.queries import backups_visible_to
from chp_site.console import HostingCommand
from chp_site.tables import moment, size, table
from sites.queries import site_named


class Command(HostingCommand):
    """Newest first. Only VERIFIED ones are recovery points."""

    help = "List backups, newest first. Only VERIFIED ones are recovery points."
    prog = "hosting-backup-list"

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("site", nargs="?", help="a domain; without it, all sites")
        parser.add_argument("--integrity", action="append", choices=Integrity.values)
        parser.add_argument("--limit", type=int, default=50)

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        backups = backups_visible_to(actor)
        if options["site"]:
            backups = backups.filter(site=site_named(actor, options["site"]))
        if options["integrity"]:
            backups = backups.filter(integrity__in=options["integrity"])
        page = list(backups[: max(1, min(options["limit"], 1000))])
        if not options["as_json"]:
            rows = [_row(backup) for backup in page]
            self.stdout.write(table(("BACKUP", "SITE", "TYPE", "INTEGRITY", "MADE (UTC)", "SIZE"), rows))
        return [_data(backup) for backup in page]


def _row(backup: Backup) -> tuple[object, ...]:
    made = moment(backup.created_at)
    return (backup.code, backup.site, backup.schedule_type, backup.integrity, made, size(backup.size_bytes))


def _data(backup: Backup) -> dict[str, Any]:
    names = ("code", "schedule_type", "integrity", "fate", "counts", "store", "path", "size_bytes", "files")
    more = ("databases", "manifest_sha256", "created_at", "verified_at", "error_message")
    data = {name: getattr(backup, name) for name in (*names, *more)}
    return {**data, "site": backup.site.domain, "job": backup.job.code if backup.job else None}
