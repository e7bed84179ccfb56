"""hosting-restore: bring a site back to a backup."""

from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from backups.queries import backup_visible_to
from chp_site.submitting import SubmittingCommand
from jobs import pipeline
from jobs.request import JobRequest


class Command(SubmittingCommand):
    """Without --yes it only says what would happen."""

    help = "Restore a site, whole, from one of its verified backups. Without --yes it says what would happen."
    prog = "hosting-restore"

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("backup", help="a code such as BK-20260813-170001")
        parser.add_argument("--yes", action="store_true", help="approve the plan and submit the job")
        self.submission_arguments(parser)

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        backup = backup_visible_to(actor, options["backup"])
        payload = {"backup": backup.code}
        request = JobRequest(
            "RESTORE", backup.site_id, payload, idempotency_key=options["key"], reason=options["reason"]
        )
        if options["yes"]:
            return self.submit(actor, options, request)
        return self._preview(actor, options, request)

    def _preview(self, actor: Actor, options: dict[str, Any], request: JobRequest) -> Any:
        preview = pipeline.preview(actor, request)
        steps = [{"name": step.name, "sentence": step.sentence} for step in preview.intention.steps]
        if not options["as_json"]:
            self.stdout.write(f"Restore of {preview.site}, priority {preview.priority.name}:")
            for number, step in enumerate(steps, start=1):
                self.stdout.write(f"  {number}. {step['sentence']}")
            self.stdout.write("Nothing was done. Add --yes to approve this and start it.")
        return {"site": preview.site.domain, "submitted": False, "steps": steps}
