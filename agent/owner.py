"""Whose a site's files are: a number of its own per site, so that one site can never read another's."""

import os
from dataclasses import dataclass
from pathlib import Path

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


# Whose process the builtin web server is. By its group, and no other site's, it passes through a home.
NOBODY = Owner(65534, 65534)
WEB_GROUP = NOBODY.gid


def owner_of(policy: Policy, site_id: int) -> Owner | None:
    """Give the owner of a site's files; None where the agent is not root and all is the caller's own."""
    if os.geteuid() != 0:
        return None
    number = policy.uid_base + site_id
    return Owner(number, number)


def open_to_web(home: Path, owner: Owner | None) -> None:
    """Let the owner into a home, and the web server's group pass through it; other sites stay outside.

    The folder above must be the caller's alone, so that nobody can put another thing in the home's place.
    """
    if owner is None:
        home.chmod(0o711)
        return
    os.chown(home, owner.uid, WEB_GROUP, follow_symlinks=False)
    home.chmod(0o710)
