"""What kind of work an operation is: the values from which conflicts, limits and recovery follow."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Category(StrEnum):
    OBSERVATION = "OBSERVATION"
    MAINTENANCE = "MAINTENANCE"
    RECOVERY = "RECOVERY"


class Priority(IntEnum):
    """Lower runs first, so that the claim's index is read forwards."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3


class SiteLock(StrEnum):
    """How an operation needs its site: not at all, beside others, or alone."""

    NONE = "NONE"
    SHARED = "SHARED"
    EXCLUSIVE = "EXCLUSIVE"


class Load(StrEnum):
    NONE = "NONE"
    LOW = "LOW"
    HEAVY = "HEAVY"


class OnLost(StrEnum):
    """What becomes of a job whose worker was lost."""

    REQUEUE = "REQUEUE"
    ORPHAN = "ORPHAN"
    ASK_JOURNAL = "ASK_JOURNAL"


@dataclass(frozen=True)
class Profile:
    """The declared defaults of one job type. Delays and timeout are seconds.

    `retry_delays[n]` is waited after attempt n + 1 failed; the last one repeats.
    """

    category: Category
    lock: SiteLock
    mutating: bool
    priority: Priority
    attempts: int
    timeout: int
    on_lost: OnLost
    retry_delays: tuple[int, ...] = ()
    disk: Load = Load.NONE
    database: Load = Load.NONE
    network: Load = Load.NONE
