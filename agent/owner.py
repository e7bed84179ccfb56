"""Whose a site's files are: a number of its own per site, so that one site can never read another's."""

import os
from dataclasses import dataclass

from agent.policy import Policy


@dataclass(frozen=True)
class Owner:
    """A user and group by number. No entry in the system's tables is needed for it."""

    uid: int
    gid: int

    def drop_to(self) -> None:
        """Become this owner for good, in the calling process."""
        os.setgroups([])
        os.setgid(self.gid)
        os.setuid(self.uid)


def owner_of(policy: Policy, site_id: int) -> Owner | None:
    """Give the owner of a site's files; None where the agent is not root and all is the caller's own."""
    if os.geteuid() != 0:
        return None
    number = policy.uid_base + site_id
    return Owner(number, number)
