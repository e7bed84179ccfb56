"""hosting-backup-verify: read a backup back."""

from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from backups.queries import backup_visible_to
from chp_site.submitting import SubmittingCommand
from jobs.request import JobRequest


class Command(SubmittingCommand):
    """Submits a VERIFY job."""

    help = "Read a backup back: checksums, archive list, database contents. --wait tells the outcome."
    prog = "hosting-backup-verify"

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("backup", help="a code such as BK-20260813-170001")
        parser.add_argument("--deep", action="store_true", help="also restore it into scratch space")
        self.submission_arguments(parser)

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        backup = backup_visible_to(actor, options["backup"])
        payload = {"backup": backup.code, "deep": options["deep"]}
        request = JobRequest(
            "VERIFY", backup.site_id, payload, idempotency_key=options["key"], reason=options["reason"]
        )
        return self.submit(actor, options, request)
