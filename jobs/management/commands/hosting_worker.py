"""hosting-worker: claim jobs and run them until told to stop."""

import json
import socket
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from accounts.actor import Actor
from chp_site.console import BAD_USAGE, HostingCommand
from jobs.worker import Supervisor


class Command(HostingCommand):
    """SIGTERM or Ctrl-C: claim no more, finish what runs, leave. A second one leaves at once."""

    help = (
        "Run a worker. It stops at SIGTERM or Ctrl-C once its jobs have ended; "
        "a second signal stops it at once and hands its jobs to recovery."
    )
    prog = "hosting-worker"

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", default=f"worker@{socket.gethostname()}", help="a label for people")
        parser.add_argument(
            "--slots", type=int, default=settings.MAX_WORKERS, help="jobs at once (MAX_WORKERS)"
        )
        parser.add_argument("--once", action="store_true", help="leave when no job is ready")

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        if not 1 <= options["slots"] <= 64:
            raise CommandError("--slots must be from 1 to 64.", returncode=BAD_USAGE)
        code = Supervisor(options["name"][:100], options["slots"], once=options["once"]).run()
        if options["as_json"]:
            self.stdout.write(json.dumps({"worker": options["name"], "exit": code}))
        sys.exit(code)
