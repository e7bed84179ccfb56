"""Put a server into the inventory; hosting-setup calls it for its own machine."""

from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from chp_site.console import HostingCommand
from sites.inventory import add_server
from sites.models import Server


class Command(HostingCommand):
    """Does nothing where the server is registered already."""

    help = "Register a server with its agent."
    prog = "hosting-register-server"

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="as in the agent's policy")
        parser.add_argument("--socket", required=True, help="path of the agent's Unix socket")
        parser.add_argument("--key-id", required=True, help="name of the key file, without .key")
        parser.add_argument("--web", required=True, help="address and port of its web server")

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        known = Server.objects.filter(name=options["name"]).first()
        if known is None:
            server = Server(
                name=options["name"],
                agent_socket=options["socket"],
                key_id=options["key_id"],
                web_address=options["web"],
            )
            known = add_server(actor, server)
        return {"server": known.name}
