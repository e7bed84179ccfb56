"""hosting-job: look at jobs, their history, and call them off."""

from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from chp_site.console import HostingCommand
from chp_site.job_output import data_of, text_of
from chp_site.tables import moment, table
from jobs import events, pipeline
from jobs.exceptions import NotVisible
from jobs.models import Job, job_id_of
from jobs.queries import job_visible_to, jobs_visible_to
from jobs.states import Status
from sites.queries import site_named

VERBS = {
    "show": "all of one job",
    "events": "its history",
    "cancel": "call it off",
    "resolve": "close a job that waits for a person",
}


class Command(HostingCommand):
    """Subcommands list, show, events, cancel, resolve."""

    help = "Show jobs and their history."
    prog = "hosting-job"

    def arguments(self, parser: CommandParser) -> None:
        parser.set_defaults(has_subcommands=True)
        names = " | ".join(["list", *VERBS])
        verbs = parser.add_subparsers(dest="verb", required=True, metavar=names)
        listing = verbs.add_parser("list", help="newest first")
        listing.add_argument(
            "--status", action="append", choices=Status.values, help="may be given several times"
        )
        listing.add_argument("--type", dest="job_type", help="for instance BACKUP")
        listing.add_argument("--site", help="a domain")
        listing.add_argument("--limit", type=int, default=25)
        for verb, text in VERBS.items():
            one = verbs.add_parser(verb, help=text)
            one.add_argument("job", help="a code such as JOB-000241")
            if verb in ("cancel", "resolve"):
                one.add_argument("--reason", required=True, help="kept in the history and the audit trail")
        outcomes = [Status.RESOLVED.value, Status.FAILED.value]
        verbs.choices["resolve"].add_argument(
            "--outcome",
            choices=outcomes,
            default="RESOLVED",
            help="RESOLVED: mended by hand; FAILED: given up",
        )
        for one in verbs.choices.values():
            self.common(one)

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        return getattr(self, f"_{options['verb']}")(actor, options)

    def _list(self, actor: Actor, options: dict[str, Any]) -> Any:
        jobs = jobs_visible_to(actor)
        if options["status"]:
            jobs = jobs.filter(status__in=options["status"])
        if options["job_type"]:
            jobs = jobs.filter(job_type=options["job_type"].upper())
        if options["site"]:
            jobs = jobs.filter(site=site_named(actor, options["site"]))
        page = list(jobs.order_by("-pk")[: max(1, min(options["limit"], 1000))])
        if not options["as_json"]:
            rows = [(job.code, job.job_type, job.site or "", job.status, job.priority_name) for job in page]
            self.stdout.write(table(("JOB", "TYPE", "SITE", "STATUS", "PRIORITY"), rows))
        return [data_of(job) for job in page] if options["as_json"] else None

    def _show(self, actor: Actor, options: dict[str, Any]) -> Any:
        job = self._job(actor, options)
        if not options["as_json"]:
            self.stdout.write(text_of(job))
        return data_of(job)

    def _events(self, actor: Actor, options: dict[str, Any]) -> Any:
        lines = list(events.history(self._job(actor, options)))
        if not options["as_json"]:
            rows = [(moment(line.at), line.level, line.event_type, line.message) for line in lines]
            self.stdout.write(table(("TIME (UTC)", "LEVEL", "EVENT", "MESSAGE"), rows))
        names = ("id", "at", "epoch", "event_type", "level", "message", "data")
        return [{name: getattr(line, name) for name in names} for line in lines]

    def _cancel(self, actor: Actor, options: dict[str, Any]) -> Any:
        job = pipeline.cancel(actor, self._job(actor, options).pk, options["reason"])
        if not options["as_json"]:
            self.stdout.write(f"{job.code}: {job.get_status_display()}")
        return data_of(job)

    def _resolve(self, actor: Actor, options: dict[str, Any]) -> Any:
        job = self._job(actor, options)
        job = pipeline.resolve(actor, job.pk, Status(options["outcome"]), options["reason"])
        if not options["as_json"]:
            self.stdout.write(f"{job.code}: {job.get_status_display()}; its site is open again")
        return data_of(job)

    def _job(self, actor: Actor, options: dict[str, Any]) -> Job:
        key = job_id_of(options["job"])
        if key is None:
            raise NotVisible(f"{options['job'][:40]!r} is not a job code; JOB-000241 is one.")
        return job_visible_to(actor, key)
