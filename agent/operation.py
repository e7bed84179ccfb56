"""What an action is given of the operation it runs in: limits, and ways to speak to who waits for it."""

import signal
import time
from collections.abc import Mapping
from types import FrameType, MappingProxyType
from typing import Any, Protocol

from agent.channel import ChannelWriter
from agent.dispatch import Work
from agent.exceptions import AgentError, DeadlinePassed, OperationCancelled
from agent.policy import Policy
from agent.protocol import canonical_bytes

LONGEST_TEXT = 4096
LARGEST_DATA_BYTES = 16 * 1024

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class OperationView(Protocol):
    """What an action may know and say. `deadline` is a value of time.monotonic()."""

    @property
    def policy(self) -> Policy:
        """The agent's policy."""

    @property
    def request_id(self) -> str:
        """The id of the request that is executed."""

    @property
    def site_id(self) -> int | None:
        """The site whose lock is held, if the action has one."""

    @property
    def deadline(self) -> float:
        """When the operation must have ended, on the monotonic clock."""

    def progress(self, percent: int, step: str) -> None:
        """Tell how far the work is, 0 to 100, and what is done now."""

    def checkpoint(self, name: str) -> None:
        """Tell that a part is done; raises OperationCancelled or DeadlinePassed to go no further."""

    def event(self, message: str, data: Mapping[str, Any] = _NOTHING) -> None:
        """Add one line to the job's history; data that is too large is left out by name."""


class Operation:
    """The operation of this process. SIGTERM asks it to stop; it does at its next checkpoint."""

    def __init__(self, policy: Policy, work: Work, deadline: float, channel: ChannelWriter) -> None:
        """Take the work and when it must have ended, on the monotonic clock; take over SIGTERM."""
        self.policy = policy
        self.request_id = work.claim.request_id
        self.site_id = work.site_id
        self.deadline = deadline
        self._channel = channel
        self._is_stop_requested = False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, self._request_stop)

    def progress(self, percent: int, step: str) -> None:
        """See OperationView."""
        self._channel.send(
            "progress", {"percent": max(0, min(100, int(percent))), "step": step[:LONGEST_TEXT]}
        )

    def checkpoint(self, name: str) -> None:
        """See OperationView."""
        self._channel.send("checkpoint", {"name": name[:LONGEST_TEXT]})
        if reason := self.stop_reason():
            raise reason

    def event(self, message: str, data: Mapping[str, Any] = _NOTHING) -> None:
        """See OperationView."""
        plain = dict(data)
        if len(canonical_bytes(plain)) > LARGEST_DATA_BYTES:
            plain = {"omitted": sorted(plain)[:100]}
        self._channel.send("event", {"message": message[:LONGEST_TEXT], "data": plain})

    def stop_reason(self) -> AgentError | None:
        """Give why the operation must not go on, if it must not."""
        if time.monotonic() >= self.deadline:
            return DeadlinePassed(details={"stopped": True})
        return OperationCancelled(details={"stopped": True}) if self._is_stop_requested else None

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self._is_stop_requested = True
