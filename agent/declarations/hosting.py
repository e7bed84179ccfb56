"""Actions that make and change sites on the server."""

from dataclasses import dataclass
from typing import ClassVar

from agent.declarations.names import DomainName, SiteId
from agent.declarations.schema import Declaration, Lock


@dataclass(frozen=True)
class CreateSite(Declaration):
    """Make a site's home, owner and virtual host, and probe it. Safe to repeat."""

    action: ClassVar[str] = "hosting.create_site"
    lock: ClassVar[Lock] = Lock.MUTATING
    default_deadline_seconds: ClassVar[int] = 600

    site_id: SiteId
    domain: DomainName
    aliases: tuple[DomainName, ...]
