"""hosting-backup: ask for a backup of a site."""

from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from chp_site.submitting import SubmittingCommand
from jobs.request import JobRequest
from sites.queries import site_named


class Command(SubmittingCommand):
    """Submits a BACKUP job; a worker makes the backup."""

    help = "Ask for a backup of a site. A worker makes it; --wait waits for that."
    prog = "hosting-backup"

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("site", help="the site's domain")
        self.submission_arguments(parser)

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        site = site_named(actor, options["site"])
        request = JobRequest("BACKUP", site.pk, {}, idempotency_key=options["key"], reason=options["reason"])
        return self.submit(actor, options, request)
