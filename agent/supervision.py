"""Watching over an operation's process: passing on what it says, stopping it, telling how it ended."""

import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from agent.channel import ChannelReader
from agent.dispatch import Agent, Work
from agent.exceptions import AgentError, DeadlinePassed, OperationCancelled, OperationInterrupted
from agent.execution import UNCLAIMED
from agent.journal import Outcome, State
from agent.liveness import is_group_alive

LOOK_SECONDS = 0.5
# How long the kernel may take to end what was sent SIGKILL.
KILLED_SECONDS = 2.0

Tell = Callable[[str, Mapping[str, Any]], None]


class Supervision:
    """One operation, from its start to its end or until it is left to itself."""

    def __init__(self, agent: Agent, work: Work, pid: int, channel: ChannelReader, deadline: float) -> None:
        """Take the operation's process, leader of its own group, and its channel."""
        self.is_left_running = False
        self._agent = agent
        self._work = work
        self._id = work.claim.request_id
        self._pid = pid
        self._process = os.pidfd_open(pid)
        self._channel = channel
        self._deadline = deadline
        self._final: Outcome | None = None
        self._stop_reason: type[AgentError] | None = None
        self._stop_until = 0.0
        self._next_look = 0.0

    def watch(self, tell: Tell) -> Outcome | None:
        """Pass on all but the end by `tell`; give the outcome, or None where the id was taken before."""
        try:
            while not self._wait():
                self._pass_on(tell)
                self._look()
                if self.is_left_running:
                    return Outcome("error", self._stop_body(has_stopped=False))
            self._pass_on(tell)
            return self._ended()
        finally:
            os.close(self._process)
            os.close(self._channel.descriptor)

    def _wait(self) -> bool:
        poll = select.poll()
        poll.register(self._process, select.POLLIN)
        if not self._channel.is_at_end:
            poll.register(self._channel.descriptor, select.POLLIN)
        soonest = min(LOOK_SECONDS, max(0.0, self._deadline - time.monotonic()) or LOOK_SECONDS)
        return self._process in dict(poll.poll(soonest * 1000))

    def _pass_on(self, tell: Tell) -> None:
        for kind, body in self._channel.read():
            if kind in ("result", "error", UNCLAIMED):
                self._final = Outcome(kind, body)
            else:
                tell(kind, body)

    def _look(self) -> None:
        now = time.monotonic()
        if self._stop_reason is None:
            self._look_for_reason_to_stop(now)
        elif now >= self._stop_until:
            self._end_of_grace()

    def _look_for_reason_to_stop(self, now: float) -> None:
        if now >= self._deadline:
            self._expect_stop(DeadlinePassed)
            self._signal(signal.SIGTERM)
        elif now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            if self._agent.journal.is_cancel_requested(self._id):
                # Who cancelled has sent the SIGTERM; a second would hit what cleans up after the first.
                self._expect_stop(OperationCancelled)

    def _expect_stop(self, reason: type[AgentError]) -> None:
        self._stop_reason = reason
        self._stop_until = time.monotonic() + self._agent.policy.grace_seconds

    def _end_of_grace(self) -> None:
        if self._work.declaration.safe_to_kill:
            self._signal(signal.SIGKILL)
        else:
            self.is_left_running = True

    def _signal(self, number: signal.Signals) -> None:
        # The leader is not reaped yet, so its number cannot mean another group.
        with suppress(ProcessLookupError):
            os.killpg(self._pid, number)

    def _ended(self) -> Outcome | None:
        has_succeeded = self._final is not None and self._final.kind == "result"
        if not has_succeeded and self._work.declaration.safe_to_kill:
            self._signal(signal.SIGKILL)
        os.waitpid(self._pid, 0)
        outcome = self._final or self._outcome_of_death()
        return None if outcome.kind == UNCLAIMED else outcome

    def _outcome_of_death(self) -> Outcome:
        entry = self._agent.journal.find(self._id)
        if entry is None:
            unbegun = OperationInterrupted("the operation's process died before it began").body()
            return Outcome("error", {**unbegun, "retryable": True})
        if entry.state is not State.INTERRUPTED and entry.outcome:
            return entry.outcome
        outcome = Outcome("error", self._stop_body(has_stopped=self._has_stopped()))
        self._agent.journal.finish(self._id, _STATES.get(self._stop_reason, State.INTERRUPTED), outcome)
        return outcome

    def _stop_body(self, *, has_stopped: bool) -> dict[str, object]:
        return (self._stop_reason or OperationInterrupted)(details={"stopped": has_stopped}).body()

    def _has_stopped(self) -> bool:
        until = time.monotonic() + KILLED_SECONDS
        while is_group_alive(self._pid):
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
        return True


_STATES: dict[type[AgentError] | None, State] = {
    DeadlinePassed: State.FAILED,
    OperationCancelled: State.CANCELLED,
}
