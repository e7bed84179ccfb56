"""The contract of an operation: one class per job type, in one file of its domain."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from accounts.actor import Actor
from accounts.roles import Right
from agent.declarations.schema import Declaration
from jobs.models import EventType, Job, Level
from jobs.profile import Profile
from sites.capabilities import Capability
from sites.models import Site

Result = dict[str, Any]
Value = TypeVar("Value")


class Payload(BaseModel):
    """Base of payload schemas: strict, frozen, and nothing beyond the declared keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    version: Literal[1] = 1


@dataclass(frozen=True)
class Step:
    """One line of a plan: what will be done, in words."""

    name: str
    sentence: str


@dataclass(frozen=True)
class Intention:
    """What an operation would do: its steps, and the facts it relies on. A value; doing is another act."""

    steps: tuple[Step, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


class Context(Protocol):
    """What a running operation may use. It never sees the queue, a session or a shell."""

    job: Job
    site: Site

    def checkpoint(self, name: str) -> None:
        """Raise CancelAsked, DeadlinePassed or OwnershipLost where the job must stop; else note the place."""

    def progress(self, percent: int, step: str) -> None:
        """Say how far the work is. `percent` is 0 to 100."""

    def event(
        self,
        message: str,
        *,
        event_type: EventType = EventType.PROGRESS,
        level: Level = Level.INFO,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a line to the job's history."""

    def agent(self, step: str, declared: Declaration, *, share: tuple[int, int] = (0, 100)) -> Result:
        """Have the agent do one declared action; its progress fills this share of the job's.

        Raises AttemptFailed, CancelAsked, DeadlinePassed, NotStarted, WorkLost, OwnershipLost.
        """

    def record(self, write: Callable[[], Value]) -> Value:
        """Write rows in one transaction that holds the job by this claim. Raises OwnershipLost."""

    def earlier(self, step: str) -> Result | None:
        """Give the result of this step from an earlier claim of the job, if the agent's journal has one.

        Raises NotStarted while the earlier operation still goes on at the server.
        """


class Operation(ABC):
    """One type of job. Subclasses are stateless; everything they need comes by argument."""

    name: ClassVar[str]
    title: ClassVar[str]
    profile: ClassVar[Profile]
    payload: ClassVar[type[Payload]]
    right: ClassVar[Right]
    capability: ClassVar[Capability]
    # Where true, the intention is frozen as a Plan and runs only with its approval.
    needs_plan: ClassVar[bool] = False

    @abstractmethod
    def intend(self, site: Site, payload: Any) -> Intention:
        """Say what would be done. Reads, never writes. Raises NotReady when it could not be done now."""

    def require_asker(self, actor: Actor, payload: Any) -> None:  # noqa: B027 - optional stage
        """Raise Forbidden where this very payload is not this actor's to ask for."""

    def revalidate(self, job: Job, payload: Any) -> None:
        """Check all references again just before execution. Raises NotReady."""
        if job.site is not None:
            self.intend(job.site, payload)

    @abstractmethod
    def run(self, context: Context, payload: Any) -> Result:
        """Do the work through the agent and give the result. No transaction is open."""

    def verify(self, context: Context, payload: Any, result: Result) -> None:  # noqa: B027 - optional stage
        """Check the work from outside. Raises AttemptFailed where it is not as it should be."""

    def settle(self, job: Job, payload: Any, result: Result) -> None:  # noqa: B027 - optional stage
        """Write what is now true. Runs in the transaction of the last move; it may run twice, never half."""

    def settle_failure(self, job: Job, message: str, *, in_doubt: bool) -> None:  # noqa: B027 - optional stage
        """Write what is true after an attempt that gave no result, in the transaction of its move.

        `in_doubt` says that the work may still be going on or done: the worker or the agent was lost.
        """
