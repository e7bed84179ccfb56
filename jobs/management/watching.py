"""watch of hosting-job: a job's history line by line, until it has ended or needs a person."""

import json
import sys
import time
from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from chp_site.console import ANSWER_IS_NO, HostingCommand, plain
from chp_site.job_output import data_of, event_data, is_over, progress_of
from chp_site.tables import fitted, moment
from jobs import events, waiting
from jobs.management.verb import Options, Verb, one_job
from jobs.models import Job
from jobs.queries import job_visible_to
from jobs.states import SATISFIED, Status

POLL_SECONDS = 0.5


def watch_arguments(parser: CommandParser) -> None:
    """Add which job, and for how long."""
    parser.add_argument("job", help="a code such as JOB-000241")
    parser.add_argument("--timeout", type=float, help="seconds at most; without it, as long as it takes")


def watch(command: HostingCommand, actor: Actor, options: Options) -> Any:
    """Follow a job. Leaves with 0 where it came to a good end, else with 1."""
    job = one_job(actor, options["job"])
    teller = _Teller(command, as_json=options["as_json"])
    ends = None if options["timeout"] is None else time.monotonic() + options["timeout"]
    try:
        while True:
            # The job first, then its events: those of its end were written together with it.
            job = job_visible_to(actor, job.pk)
            teller.tell(job, actor)
            if is_over(job):
                teller.tell_end(job, actor)
                sys.exit(0 if job.status in SATISFIED else ANSWER_IS_NO)
            if ends is not None and time.monotonic() >= ends:
                teller.tell_time_over(job, options["timeout"])
                sys.exit(ANSWER_IS_NO)
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        sys.exit(ANSWER_IS_NO)


class _Teller:
    """Prints what is new of a job: one line, or one JSON object on a line, for each thing."""

    def __init__(self, command: HostingCommand, *, as_json: bool) -> None:
        self._command = command
        self._as_json = as_json
        self._last_event = 0
        self._last_progress = ""
        self._last_reason = ""

    def tell(self, job: Job, actor: Actor) -> None:
        """Print the events, the reason to wait and the progress that were not told yet."""
        for line in events.history(job, after=self._last_event):
            self._last_event = line.pk
            head = f"{moment(line.at)}  {line.level:<7}  {line.event_type:<16}  "
            text = fitted(f"{head}{line.message}", indent=len(head))
            self._print(text, {"kind": "event", **event_data(line)})
        reason = waiting.explain([job], actor).get(job.pk, "")
        if reason and reason != self._last_reason:
            self._print(fitted(f"{'':19}  {reason}", indent=21), {"kind": "waiting", "reason": reason})
        self._last_reason = reason
        progress = progress_of(job)
        if progress and progress != self._last_progress:
            self._last_progress = progress
            data = {"percent": job.progress_percent, "step": job.progress_step}
            self._print(f"{'':19}  {progress}", {"kind": "progress", **data})

    def tell_end(self, job: Job, actor: Actor) -> None:
        """Print how the job ended, or that it needs a person."""
        text = f"{job.code}: {job.get_status_display()}"
        if job.status == Status.ORPHANED:
            text += f"; a person must decide: hosting-job resolve {job.code}"
        self._print(text, {"kind": "end", "job": data_of(job, actor)})

    def tell_time_over(self, job: Job, seconds: float) -> None:
        """Say that the job goes on unwatched."""
        text = f"{job.code} has not ended within {seconds:g} s; it goes on ({job.get_status_display()})."
        if self._as_json:
            self._print("", {"kind": "timeout", "message": text})
        else:
            self._command.stderr.write(text)

    def _print(self, text: str, data: dict[str, Any]) -> None:
        self._command.stdout.write(json.dumps(data, default=plain) if self._as_json else text.rstrip())
        self._command.stdout.flush()


WATCH = Verb("follow it until it has ended or needs a person", watch_arguments, watch)
