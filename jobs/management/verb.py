"""What the subcommands of hosting-job have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandError, CommandParser

from accounts.actor import Actor
from chp_site.console import BAD_USAGE, HostingCommand
from jobs.exceptions import Forbidden, NotVisible
from jobs.models import Job, job_id_of
from jobs.queries import job_visible_to
from sites.models import Server
from sites.queries import SEES_ALL, sites_visible_to

Options = dict[str, Any]


@dataclass(frozen=True)
class Verb:
    """One subcommand: a line of help, its arguments, and what it does; it returns what --json prints."""

    help: str
    arguments: Callable[[CommandParser], None]
    act: Callable[[HostingCommand, Actor, Options], Any]


def one_job(actor: Actor, code: str) -> Job:
    """Give the job of a code. Raises NotVisible."""
    key = job_id_of(code)
    if key is None:
        raise NotVisible(f"{code[:40]!r} is not a job code; JOB-000241 is one.")
    return job_visible_to(actor, key)


def one_server(actor: Actor, name: str) -> Server:
    """Give a server by name, of those that the actor's sites are on. Raises NotVisible."""
    servers = Server.objects.all()
    if actor.kind not in SEES_ALL:
        servers = servers.filter(pk__in=sites_visible_to(actor).values("server_id"))
    found = servers.filter(name=name).first()
    if found is None:
        known = ", ".join(servers.values_list("name", flat=True)[:20]) or "none"
        raise NotVisible(f"There is no server {name[:60]!r}. Servers are: {known}.")
    return found


def require_overview(actor: Actor) -> None:
    """Keep what tells of all customers to those who see all of them. Raises Forbidden."""
    if actor.kind not in SEES_ALL:
        raise Forbidden("Only staff may look at the work of all customers.")


def bad_usage(sentence: str) -> CommandError:
    """Give the error of a command that was called wrongly."""
    return CommandError(sentence, returncode=BAD_USAGE)


def say(command: HostingCommand, options: Options, text: str) -> None:
    """Print for people; with --json nothing but the value is printed."""
    if not options["as_json"]:
        command.stdout.write(text)
