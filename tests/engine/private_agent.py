"""A real agent of the chaos' own, that is killed with all it runs and comes back."""

import os
from random import Random

from chp_site.install import Places
from sites.models import Server
from tests.installation import Installation


class PrivateAgent:
    """The agent of the one server."""

    def __init__(self, places: Places) -> None:
        server = Server.objects.get(name=places.server)
        self._installation = Installation(places, server, dict(os.environ))
        self._installation.start_agent()

    def kill(self, dice: Random) -> str:
        """Kill the agent, and start it again."""
        self._installation.kill_agent()
        self._installation.start_agent()
        return "kill the agent"

    def stop(self) -> None:
        """End it."""
        self._installation.stop()
