"""What can go wrong in the agent: one tree, each with the code that the answer carries.

`retryable` means: nothing was executed, and the same request may be sent again later.
The docstring is the message where none is given.
"""

from collections.abc import Mapping
from typing import ClassVar

LONGEST_MESSAGE = 4096


class AgentError(Exception):
    """The agent could not do it."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str = "", details: Mapping[str, object] | None = None) -> None:
        """Take a sentence for a person and, where useful, more facts for the body of the answer."""
        super().__init__(message or type(self).__doc__ or self.code)
        self.details = dict(details or {})

    def body(self) -> dict[str, object]:
        """Give the body of the `error` answer."""
        message = str(self)
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[:LONGEST_MESSAGE]} ... (cut)"
        return {**self.details, "code": self.code, "message": message, "retryable": self.retryable}


class PolicyRefused(AgentError):
    """The agent's policy file cannot be used."""

    code = "policy_refused"


class ServerRefused(AgentError):
    """The agent cannot listen here."""

    code = "server_refused"


class ProtocolError(AgentError):
    """The line is not of this protocol."""

    code = "malformed"


class LineTooLong(ProtocolError):
    """The line is longer than the protocol allows."""

    code = "too_long"


class UnknownVersion(ProtocolError):
    """The protocol version is not understood here."""

    code = "unknown_version"


class Unsigned(ProtocolError):
    """The request carries no signature."""

    code = "unsigned"


class UnknownKey(ProtocolError):
    """The request names a key that this agent does not have."""

    code = "unknown_key"


class Altered(ProtocolError):
    """The signature does not fit the content: altered on the way, or signed with another key."""

    code = "altered"


class WrongServer(ProtocolError):
    """The request is meant for another server."""

    code = "wrong_server"


class Stale(ProtocolError):
    """The request is too old or from the future: clock skew."""

    code = "stale"


class Replayed(ProtocolError):
    """This very request was sent before."""

    code = "replayed"


class AnswerRefused(ProtocolError):
    """The answer does not belong to the request or is not the agent's."""

    code = "answer_refused"


class AnswerOutOfOrder(AnswerRefused):
    """An answer is missing or came twice."""


class UnsignedRefusal(AnswerRefused):
    """The agent refused without a signature, since it could not tell who asked. Do not trust, only show."""

    def __init__(self, refusal_code: str, message: str) -> None:
        """Take the code and the sentence that the unsigned line carried."""
        super().__init__(f"the agent refused ({refusal_code}): {message}", {"refusal_code": refusal_code})
        self.refusal_code = refusal_code


class PeerRefused(AgentError):
    """This user may not speak to the agent."""

    code = "peer_refused"


class Overloaded(AgentError):
    """The agent has no room for another request now."""

    code = "overloaded"
    retryable = True


class UnknownAction(AgentError):
    """There is no such action."""

    code = "unknown_action"


class InvalidArguments(AgentError):
    """The arguments do not fit the action's declaration."""

    code = "invalid_arguments"


class ActionNotAllowed(AgentError):
    """The policy of this agent does not allow the action."""

    code = "action_not_allowed"


class NotPermitted(AgentError):
    """The action needs root, and this agent does not run as root."""

    code = "not_permitted"


class IdReused(AgentError):
    """The request id was used before with another action or other arguments."""

    code = "id_reused"


class StillRunning(AgentError):
    """The operation with this request id is still running."""

    code = "still_running"
    retryable = True


class SiteBusy(AgentError):
    """Another operation holds the site."""

    code = "site_busy"
    retryable = True


class ActionFailed(AgentError):
    """The action could not do its work."""

    code = "failed"


class OperationCancelled(AgentError):
    """The operation was cancelled."""

    code = "cancelled"


class DeadlinePassed(AgentError):
    """The operation did not end before its deadline."""

    code = "deadline_passed"


class OperationInterrupted(AgentError):
    """The operation's process died before it could say how it ended."""

    code = "interrupted"
