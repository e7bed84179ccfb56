"""Base of the commands that ask for one job: how they wait, what they print, how they end."""

import sys
from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from chp_site.console import ANSWER_IS_NO, HostingCommand
from chp_site.job_output import data_of, wait_for
from chp_site.tables import fitted
from jobs import pipeline
from jobs.models import Job
from jobs.request import JobRequest
from jobs.states import ENDED, Status


class SubmittingCommand(HostingCommand):
    """Adds --reason, --key, --wait and --timeout; with --wait the exit code tells how the job ended."""

    def submission_arguments(self, parser: CommandParser | Any) -> None:
        """Add what every submitting command takes."""
        parser.add_argument("--reason", default="", help="kept in the job and the audit trail")
        parser.add_argument("--key", default="", help="idempotency key: the same key gives the same job")
        parser.add_argument("--wait", action="store_true", help="wait until the job has ended")
        parser.add_argument("--timeout", type=float, default=3600, help="with --wait, seconds at most")

    def submit(self, actor: Actor, options: dict[str, Any], request: JobRequest) -> Any:
        """Submit, wait if asked to, print. Leaves with 1 where a waited-for job did not succeed."""
        job = pipeline.submit(actor, request).job
        if options["wait"]:
            job = wait_for(job, options["timeout"])
        if not options["as_json"]:
            self.stdout.write(line_of(job))
        return self._finish(actor, job, options)

    def _finish(self, actor: Actor, job: Job, options: dict[str, Any]) -> Any:
        data = data_of(job, actor)
        if options["wait"] and job.status != Status.SUCCESS:
            if options["as_json"]:
                self.print_json(data)
            elif job.status not in ENDED:
                self.stderr.write(f"{job.code} has not ended within {options['timeout']:g} s; it goes on.")
                if data["waiting_reason"]:
                    self.stderr.write(fitted(f"It waits: {data['waiting_reason']}"))
            sys.exit(ANSWER_IS_NO)
        return data


def line_of(job: Job) -> str:
    """Give one line: code, type, site, state, and what there is to say."""
    said = job.error_message or (job.result or {}).get("backup", "")
    return f"{job.code}  {job.job_type}  {job.site}  {job.status}" + (f"  {said}" if said else "")
