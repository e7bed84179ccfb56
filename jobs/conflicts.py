"""Which work excludes which on one site. Derived from profiles; there is no second table."""

from collections.abc import Mapping

from jobs.profile import Profile, SiteLock

Matrix = dict[str, dict[str, str]]


def must_wait(running_lock: str, running_mutates: bool, asked_lock: str, asked_mutates: bool) -> bool:
    """Whether asked work waits for running work on the same site.

    Exclusive waits for exclusive; shared and exclusive wait for each other only where the exclusive one
    mutates; work without a site lock never waits (DESIGN section 4, Conflict).
    """
    if SiteLock.NONE in (running_lock, asked_lock):
        return False
    if running_lock == asked_lock:
        return running_lock == SiteLock.EXCLUSIVE
    return running_mutates if running_lock == SiteLock.EXCLUSIVE else asked_mutates


def agent_lock(lock: str, mutates: bool) -> str:
    """Give the agent's word for the same need, so that its lock agrees with the queue's."""
    if lock == SiteLock.EXCLUSIVE:
        return "mutating" if mutates else "exclusive"
    return lock.lower()


def matrix(profiles: Mapping[str, Profile]) -> Matrix:
    """Give, for each running and each asked type on one site, "wait" or "allowed"."""
    return {
        running: {asked: _word(one, other) for asked, other in profiles.items()}
        for running, one in profiles.items()
    }


def _word(running: Profile, asked: Profile) -> str:
    waits = must_wait(running.lock, running.mutating, asked.lock, asked.mutating)
    return "wait" if waits else "allowed"
