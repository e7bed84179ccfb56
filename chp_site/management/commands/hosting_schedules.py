"""Put the periodic evaluations of the code into django-q2's table; hosting-setup calls it."""

from typing import Any

from accounts.actor import Actor
from chp_site.console import HostingCommand
from chp_site.evaluations import EVALUATIONS
from chp_site.schedules import sync


class Command(HostingCommand):
    """Safe to repeat; run it after every update."""

    help = "Sync the periodic evaluations."
    prog = "hosting-schedules"

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        sync()
        return {"evaluations": [evaluation.name for evaluation in EVALUATIONS]}
