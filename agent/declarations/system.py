"""Questions to the agent itself. They change no site, are answered by the core and are not journalled."""

from dataclasses import dataclass
from typing import ClassVar

from agent.declarations.names import JobUuid, RequestId
from agent.declarations.schema import Declaration


@dataclass(frozen=True)
class Ping(Declaration):
    """Say which server this is, its version, whether it is root, and its time."""

    action: ClassVar[str] = "agent.ping"
    default_deadline_seconds: ClassVar[int] = 30


@dataclass(frozen=True)
class CancelOperation(Declaration):
    """Ask a running operation to stop."""

    action: ClassVar[str] = "agent.cancel_operation"
    default_deadline_seconds: ClassVar[int] = 30

    request_id: RequestId


@dataclass(frozen=True)
class ReadJournal(Declaration):
    """Tell what became of a job's operations, newest first."""

    action: ClassVar[str] = "agent.read_journal"
    default_deadline_seconds: ClassVar[int] = 30

    job: JobUuid
