"""pause and resume of hosting-job."""

from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from chp_site.console import HostingCommand
from chp_site.tables import moment
from jobs import pauses, registry
from jobs.management.verb import Options, Verb, bad_usage, one_server, require_overview, say
from jobs.models import Pause, PauseScope
from jobs.pauses import Target
from sites.queries import site_named


def resume_arguments(parser: CommandParser) -> None:
    """Add what is resumed, and why."""
    _target_arguments(parser)
    parser.add_argument("--reason", default="", help="kept in the audit trail")


def pause_arguments(parser: CommandParser) -> None:
    """Add what is paused, and why, or that the pauses are to be listed."""
    targets = _target_arguments(parser)
    targets.add_argument("--list", action="store_true", dest="listing", help="show what is paused")
    parser.add_argument("--reason", default="", help="shown with every job that waits for it")


def _target_arguments(parser: CommandParser) -> Any:
    targets = parser.add_mutually_exclusive_group(required=True)
    targets.add_argument("--all", action="store_true", dest="everything", help="all work")
    targets.add_argument("--type", dest="job_type", help="one type, for instance BACKUP")
    targets.add_argument("--server", help="one server, by name")
    targets.add_argument("--site", help="one site, by domain")
    return targets


def pause(command: HostingCommand, actor: Actor, options: Options) -> Any:
    """Hold work back, or show what is held back."""
    if options["listing"]:
        return _list(command, actor, options)
    _require_reason(options)
    row = pauses.pause(actor, _target(actor, options, known=True), options["reason"])
    say(command, options, f"Paused: {row}. What already runs goes on.")
    return _data(row)


def resume(command: HostingCommand, actor: Actor, options: Options) -> Any:
    """Let work go on."""
    _require_reason(options)
    target = _target(actor, options, known=False)
    pauses.resume(actor, target, options["reason"])
    say(command, options, f"Resumed: {target}.")
    return {"resumed": target.name}


def _list(command: HostingCommand, actor: Actor, options: Options) -> Any:
    require_overview(actor)
    rows = pauses.in_force().pauses
    lines = [f"{row}\n  since {moment(row.since)} by {row.paused_by}: {row.reason}" for row in rows]
    say(command, options, "\n".join(lines) or "Nothing is paused.")
    return [_data(row) for row in rows]


def _target(actor: Actor, options: Options, *, known: bool) -> Target:
    """Give what is meant. A type must be `known` to be paused, not to be resumed."""
    if options["job_type"]:
        name = options["job_type"].upper()
        return Target(PauseScope.TYPE, job_type=registry.operation(name).name if known else name)
    if options["server"]:
        return Target(PauseScope.SERVER, server=one_server(actor, options["server"]))
    if options["site"]:
        return Target(PauseScope.SITE, site=site_named(actor, options["site"]))
    if options["everything"]:
        return Target(PauseScope.ALL)
    raise bad_usage("Name one of --all, --type, --server, --site.")


def _require_reason(options: Options) -> None:
    if not options["reason"].strip():
        raise bad_usage("--reason is needed: say why; it is kept and shown.")


def _data(row: Pause) -> dict[str, object]:
    return {
        "scope": row.scope,
        "target": row.target,
        "type": row.job_type or None,
        "server": row.server.name if row.server else None,
        "site": row.site.domain if row.site else None,
        "paused_by": row.paused_by,
        "since": row.since.isoformat(),
        "reason": row.reason,
    }


PAUSE = Verb("hold work back, or show what is held back", pause_arguments, pause)
RESUME = Verb("let it go on", resume_arguments, resume)
