"""What can go wrong on a job's road. The text of each is the message for the person who asked."""


class JobError(Exception):
    """Base of this package's errors."""


# --- Before there is a job -----------------------------------------------------------------------
class Refused(JobError):
    """The request was not accepted; nothing was queued. `code` is stable, for programs.

    `position` is that of the request at fault among those asked for in one call, from 0, where it is known.
    """

    code = "refused"
    position: int | None = None

    def __init__(self, message: str, *, errors: list[dict[str, str]] | None = None) -> None:
        super().__init__(message)
        self.errors = errors or []


class UnknownOperation(Refused):
    """No installed operation has this name."""

    code = "unknown_operation"


class InvalidPayload(Refused):
    """The payload does not fit the operation's schema."""

    code = "invalid_payload"


class Invalid(Refused):
    """Another part of the request is out of its bounds: reason, priority, time, key."""

    code = "invalid"


class NotVisible(Refused):
    """The site or job does not exist for this actor."""

    code = "not_found"


class Forbidden(Refused):
    """The actor sees the site but lacks the right, or the site lacks the capability."""

    code = "forbidden"


class ApprovalRequired(Refused):
    """The plan needs somebody else's approval."""

    code = "approval_required"


class KeyConflict(Refused):
    """The idempotency key was used before, for something else."""

    code = "idempotency_conflict"


class WrongState(Refused):
    """The job is not in a state that allows this."""

    code = "wrong_state"


class NotReady(Refused):
    """What the payload refers to cannot be used now: backup not verified, site not active, plan expired."""

    code = "not_ready"


# --- While it runs -------------------------------------------------------------------------------
class IllegalMove(JobError):
    """The table of states does not allow this move: a programming error."""


class OwnershipLost(JobError):
    """The job belongs to a newer claim or has ended; this attempt's word no longer counts."""


class CancelAsked(JobError):
    """The job was asked to stop. `stopped` says whether the work is known to have ended."""

    def __init__(self, message: str, *, stopped: bool = True) -> None:
        super().__init__(message)
        self.stopped = stopped


class DeadlinePassed(JobError):
    """The time for the job is over. `stopped` says whether the work is known to have ended."""

    def __init__(self, message: str, *, stopped: bool) -> None:
        super().__init__(message)
        self.stopped = stopped


class AttemptFailed(JobError):
    """The work did not succeed. `retryable` says whether a further attempt could."""

    def __init__(self, message: str, *, code: str = "failed", retryable: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable


class NotStarted(JobError):
    """Nothing was executed (site busy, agent not reachable): the job waits and no attempt is spent."""

    def __init__(self, message: str, *, busy: bool) -> None:
        super().__init__(message)
        self.busy = busy


class WorkLost(JobError):
    """It is not known how far the work came."""
