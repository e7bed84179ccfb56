"""What the agent asks of a web server, whichever it is."""

import http.client
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agent.exceptions import ActionFailed
from agent.policy import Policy

PROBE_SECONDS = 15.0


@dataclass(frozen=True)
class VirtualHost:
    """One site as the web server sees it. The first name is the site's own."""

    site_id: int
    names: tuple[str, ...]
    document_root: Path


class WebDriver(Protocol):
    """Configuration is written aside, checked whole, swapped, reloaded, and put back if the site fails."""

    def publish(self, host: VirtualHost) -> None:
        """Let the web server serve the site. Raises ActionFailed, and then all is as before."""

    def probe(self, domain: str) -> int:
        """Ask for the first page under this name and give the HTTP status. Raises ActionFailed."""


def probe(policy: Policy, domain: str) -> int:
    """Ask the server's own address for a site's first page. Raises ActionFailed where nobody answers."""
    host, _, port = policy.web_address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PROBE_SECONDS)
    try:
        connection.request("GET", "/", headers={"Host": domain, "User-Agent": "chp-probe"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise ActionFailed(
            f"the web server at {policy.web_address} does not answer ({error}); start it and try again"
        ) from error
    finally:
        connection.close()
