"""Fill a demo installation with people and sites; hosting-demo calls it once its processes run."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from chp_site.console import HostingCommand
from chp_site.demo import world
from jobs import pipeline
from jobs.request import JobRequest
from sites.inventory import set_capabilities


class Command(HostingCommand):
    """Reads the password of all logins from its input."""

    help = "Internal: fill a demo installation."
    prog = "hosting-demo-furnish"

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--state", type=Path, required=True, help="folder of the installation")

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        world.make_people(sys.stdin.read().strip())
        made = [world.make_site(options["state"], *site)[0] for site in world.SITES]
        for site in made:
            pipeline.submit(world.ACTOR, JobRequest("BACKUP", site.pk, reason="first backup of the demo"))
        set_capabilities(world.ACTOR, made[-1], ["MONITOR", "BACKUP"])
        return {"sites": [site.domain for site in made]}
