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

    `retry_delays[n]` is waited after attempt n + 1 failed; the last one repeats. `brief` says that the work
    takes milliseconds and is safe to repeat: a slot may be handed several such jobs at once, which it runs
    one after another and whose ends it records together.
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
    brief: bool = False

    def __post_init__(self) -> None:
        if self.brief and (self.mutating or self.on_lost is not OnLost.REQUEUE):
            raise ValueError("Only work that changes nothing and is repeated when lost can be brief.")

    @property
    def heavy(self) -> tuple[str, ...]:
        """Give the resources of its server that it uses heavily, of disk, database and network."""
        loads = {"disk": self.disk, "database": self.database, "network": self.network}
        return tuple(name for name, load in loads.items() if load is Load.HEAVY)
