"""Walk the road of hosting-demo-check; it calls this once the processes run."""

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from chp_site.console import ANSWER_IS_NO, HostingCommand
from chp_site.demo.client import CallFailed
from chp_site.demo.processes import StartFailed
from chp_site.demo.road import Road, RoadBlocked


class Command(HostingCommand):
    """Reads the password of all logins from its input. The last line is one JSON object."""

    help = "Internal: walk the road of hosting-demo-check."
    prog = "hosting-demo-road"

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--state", type=Path, required=True)
        parser.add_argument("--panel", required=True)
        parser.add_argument("--web", required=True)

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        password = sys.stdin.read().strip()
        road = Road(options["state"], options["panel"], options["web"], password, self.stdout.write)
        try:
            report = road.walk()
        except (CallFailed, OSError, RoadBlocked, StartFailed) as error:
            report = {"ok": False, "reason": str(error)}
        self.stdout.write(json.dumps(report))
        if not report["ok"]:
            sys.exit(ANSWER_IS_NO)
