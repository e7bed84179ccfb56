"""The conflict matrix follows from profiles and equals the one of DESIGN section 4."""

import pytest

from jobs.conflicts import agent_lock, must_wait
from jobs.profile import SiteLock

# lock and mutating of each type, as DESIGN's table of types has them
PROFILES = {
    "BACKUP": (SiteLock.EXCLUSIVE, False),
    "RESTORE": (SiteLock.EXCLUSIVE, True),
    "REPAIR": (SiteLock.EXCLUSIVE, True),
    "RETENTION": (SiteLock.EXCLUSIVE, True),
    "RECONCILE": (SiteLock.SHARED, False),
    "HEALTH": (SiteLock.NONE, False),
}
CHANGING = ("RESTORE", "REPAIR", "RETENTION")
ALONE = ("BACKUP", *CHANGING)
WAITS = {
    **{(running, asked): True for running in ALONE for asked in ALONE},
    **{(running, "RECONCILE"): True for running in CHANGING},
    **{("RECONCILE", asked): True for asked in CHANGING},
}


@pytest.mark.parametrize("running", PROFILES)
@pytest.mark.parametrize("asked", PROFILES)
def test_the_derived_matrix_is_the_designs(running: str, asked: str) -> None:
    assert must_wait(*PROFILES[running], *PROFILES[asked]) == WAITS.get((running, asked), False)


def test_the_agents_lock_says_the_same() -> None:
    words = {name: agent_lock(*profile) for name, profile in PROFILES.items()}
    assert words == {
        "BACKUP": "exclusive",
        "RESTORE": "mutating",
        "REPAIR": "mutating",
        "RETENTION": "mutating",
        "RECONCILE": "shared",
        "HEALTH": "none",
    }
