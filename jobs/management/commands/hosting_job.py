"""hosting-job: look at jobs and their history, decide about them, and hold work back."""

from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from chp_site.console import HostingCommand
from jobs.management.deciding import CANCEL, RESOLVE, RETRY
from jobs.management.looking import EVENTS, LIST, SHOW
from jobs.management.overviews import CONFLICTS, STATS
from jobs.management.pausing import PAUSE, RESUME
from jobs.management.verb import Verb
from jobs.management.verifying import VERIFY
from jobs.management.watching import WATCH

VERBS: dict[str, Verb] = {
    "list": LIST,
    "show": SHOW,
    "events": EVENTS,
    "watch": WATCH,
    "cancel": CANCEL,
    "retry": RETRY,
    "resolve": RESOLVE,
    "pause": PAUSE,
    "resume": RESUME,
    "conflicts": CONFLICTS,
    "stats": STATS,
    "verify": VERIFY,
}


class Command(HostingCommand):
    """Each subcommand is a Verb of `jobs.management`."""

    help = "Look at jobs, decide about them, and hold work back."
    prog = "hosting-job"

    def arguments(self, parser: CommandParser) -> None:
        parser.set_defaults(has_subcommands=True)
        verbs = parser.add_subparsers(dest="verb", required=True, metavar=" | ".join(VERBS))
        for name, verb in VERBS.items():
            one = verbs.add_parser(
                name, help=verb.help, description=f"{verb.help[0].upper()}{verb.help[1:]}."
            )
            verb.arguments(one)
            self.common(one)

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        return VERBS[options["verb"]].act(self, actor, options)
