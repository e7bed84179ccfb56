"""list, show and events of hosting-job."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import QuerySet

from accounts.actor import Actor
from accounts.models import Customer
from audit.clock import database_now
from chp_site.console import HostingCommand
from chp_site.job_output import data_of, data_of_all, event_data, list_text, text_of, waiting_text
from chp_site.tables import moment, table
from jobs import events, registry
from jobs.exceptions import NotVisible
from jobs.management.verb import Options, Verb, bad_usage, one_job, one_server, say
from jobs.models import Job, Worker, job_id_of
from jobs.queries import jobs_visible_to
from jobs.states import Status
from sites.queries import SEES_ALL, site_named, visible_customers

MOST = 1000
AGE = re.compile(r"([1-9][0-9]{0,5})([mhd])")
UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def code_argument(parser: CommandParser) -> None:
    """Add the code of one job."""
    parser.add_argument("job", help="a code such as JOB-000241")


def list_arguments(parser: CommandParser) -> None:
    """Add the filters."""
    parser.add_argument("--status", action="append", choices=Status.values, help="may be given several times")
    parser.add_argument("--type", dest="job_type", help="for instance BACKUP")
    parser.add_argument("--site", help="a domain")
    parser.add_argument("--customer", help="a customer's code")
    parser.add_argument("--server", help="a server's name")
    parser.add_argument("--worker", help="a worker's label")
    parser.add_argument("--since", help="asked for since: 30m, 24h, 7d, or a time such as 2026-08-13T02:00Z")
    parser.add_argument("--waiting", action="store_true", help="queued ones only, each with why it waits")
    parser.add_argument("--limit", type=int, default=25, help=f"25, at most {MOST}")
    parser.add_argument("--after", metavar="JOB", help="go on behind this job of an earlier page")


def list_jobs(command: HostingCommand, actor: Actor, options: Options) -> Any:
    """Print jobs, newest first."""
    since, limit = _since(options["since"]), options["limit"]
    if not 1 <= limit <= MOST:
        raise bad_usage(f"--limit must be from 1 to {MOST}.")
    page = list(_chosen(actor, options).order_by("-pk")[: limit + 1])
    more = len(page) > limit
    # Keys ascend with the time of the request: what is too old ends the list, and no index of times is read.
    shown = [job for job in page[:limit] if since is None or job.created_at >= since]
    if options["as_json"]:
        return data_of_all(shown, actor)
    if not shown:
        command.stdout.write("No jobs.")
    else:
        command.stdout.write(waiting_text(shown, actor) if options["waiting"] else list_text(shown))
    if more and len(shown) == limit:
        command.stdout.write(f"There are more: --after {shown[-1].code}")
    return None


def show(command: HostingCommand, actor: Actor, options: Options) -> Any:
    """Print all of one job."""
    job = one_job(actor, options["job"])
    if not options["as_json"]:
        command.stdout.write(text_of(job, actor))
        return None
    return data_of(job, actor)


def history(command: HostingCommand, actor: Actor, options: Options) -> Any:
    """Print a job's events in order."""
    lines = list(events.history(one_job(actor, options["job"])))
    rows = [(moment(line.at), line.level, line.event_type, line.message) for line in lines]
    say(command, options, table(("TIME (UTC)", "LEVEL", "EVENT", "MESSAGE"), rows))
    return [event_data(line) for line in lines]


def _chosen(actor: Actor, options: Options) -> QuerySet[Job]:
    jobs = jobs_visible_to(actor)
    if options["waiting"]:
        jobs = jobs.filter(status=Status.QUEUED)
    if options["status"]:
        jobs = jobs.filter(status__in=options["status"])
    if options["job_type"]:
        jobs = jobs.filter(job_type=_known_type(jobs, options["job_type"].upper()))
    if options["worker"]:
        jobs = jobs.filter(worker_name=_known_worker(actor, options["worker"]))
    if options["after"]:
        jobs = jobs.filter(pk__lt=_key(actor, options["after"]))
    return jobs.filter(**_place(actor, options))


def _known_type(jobs: QuerySet[Job], name: str) -> str:
    """Give the type, which is installed or was when one of these jobs was made. Raises NotVisible."""
    if name not in registry.known_types() and not jobs.filter(job_type=name).exists():
        known = ", ".join(registry.known_types())
        raise NotVisible(f"There is no type {name[:60]!r}. Types are: {known}.")
    return name


def _known_worker(actor: Actor, label: str) -> str:
    """Give the label, which a worker has or a job remembers that the actor sees. Raises NotVisible."""
    workers = Worker.objects.filter(name=label) if actor.kind in SEES_ALL else Worker.objects.none()
    if not (workers.exists() or jobs_visible_to(actor).filter(worker_name=label).exists()):
        raise NotVisible(f"There is no worker {label[:100]!r}; hosting-worker --check tells of this host's.")
    return label


def _place(actor: Actor, options: Options) -> dict[str, object]:
    """Look the named site, customer and server up first, so that the list is read along their indexes."""
    found: dict[str, object] = {}
    if options["site"]:
        found["site"] = site_named(actor, options["site"])
    if options["customer"]:
        found["customer"] = _customer(actor, options["customer"])
    if options["server"]:
        found["server"] = one_server(actor, options["server"])
    return found


def _customer(actor: Actor, code: str) -> Customer:
    customers = Customer.objects.all()
    if actor.kind not in SEES_ALL:
        customers = customers.filter(pk__in=visible_customers(actor).values("customer_id"))
    found = customers.filter(code=code).first()
    if found is None:
        raise NotVisible(f"There is no customer {code[:60]!r}.")
    return found


def _key(actor: Actor, code: str) -> int:
    if job_id_of(code) is None:
        raise bad_usage(f"--after takes a job code such as JOB-000241, not {code[:40]!r}.")
    return one_job(actor, code).pk


def _since(text: str | None) -> datetime | None:
    if not text:
        return None
    if match := AGE.fullmatch(text):
        return database_now() - timedelta(**{UNITS[match[2]]: int(match[1])})
    try:
        given = datetime.fromisoformat(text)
    except ValueError as error:
        wanted = "30m, 24h, 7d, or a time such as 2026-08-13T02:00Z"
        raise bad_usage(f"--since takes {wanted}, not {text[:40]!r}.") from error
    return given if given.tzinfo else given.replace(tzinfo=UTC)


LIST = Verb("jobs, newest first", list_arguments, list_jobs)
SHOW = Verb("all of one job", code_argument, show)
EVENTS = Verb("its history", code_argument, history)
