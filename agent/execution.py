"""The life of an operation's own process: claim, work, write the outcome, tell it."""

import logging

from agent.channel import ChannelWriter
from agent.dispatch import Agent, Work
from agent.exceptions import AgentError, DeadlinePassed, OperationCancelled
from agent.journal import Outcome, State
from agent.operation import Operation
from agent.protocol import MAX_LINE_BYTES, canonical_bytes

UNCLAIMED = "unclaimed"

# Room for what an answer adds around the body.
_LARGEST_BODY_BYTES = MAX_LINE_BYTES - 1024

log = logging.getLogger("agent")


def execute(agent: Agent, work: Work, deadline: float, channel: ChannelWriter) -> None:
    """Do the work in this process, the operation's own, and journal the outcome before it is told."""
    operation = Operation(agent.policy, work, deadline, channel)
    if not agent.journal.claim(work.claim):
        channel.send(UNCLAIMED, {})
        return
    channel.send("accepted", {})
    state, outcome = _attempt(agent, work, operation)
    agent.journal.finish(work.claim.request_id, state, outcome)
    channel.send(outcome.kind, outcome.body)


def _attempt(agent: Agent, work: Work, operation: Operation) -> tuple[State, Outcome]:
    try:
        result = agent.actions[work.claim.action](work.arguments, operation)
        if len(canonical_bytes(result)) > _LARGEST_BODY_BYTES:
            raise AgentError("the work is done, but its result is too large to be told")
        return State.SUCCEEDED, Outcome("result", result)
    except AgentError as error:
        # A tool that fails after the order to stop failed because of it.
        return _failure(operation.stop_reason() or error)
    except Exception:
        log.exception("internal error in %s %s", work.claim.action, work.claim.request_id)
        return _failure(operation.stop_reason() or AgentError("internal error, see the agent's log"))


def _failure(error: AgentError) -> tuple[State, Outcome]:
    if isinstance(error, DeadlinePassed | OperationCancelled):
        error.details.setdefault("stopped", True)
    state = State.CANCELLED if isinstance(error, OperationCancelled) else State.FAILED
    return state, Outcome("error", error.body())
