"""A process of ours, held by a descriptor: its number can never come to mean somebody else's process."""

import os
import select
import signal
from pathlib import Path


class Body:
    """One process that this program started, or that one of those started."""

    def __init__(self, pid: int) -> None:
        """Take hold of the process. Raises ProcessLookupError where it is gone."""
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return not poll.poll(0)

    def send(self, number: signal.Signals) -> None:
        """Signal it, if it is still there."""
        if self.is_alive:
            signal.pidfd_send_signal(self._descriptor, number)

    def wait(self, seconds: float) -> bool:
        """Wait for its end; say whether it has ended."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def __del__(self) -> None:
        # Not before: a timer may still be about to signal it.
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)


def descendants(pid: int) -> list[int]:
    """Give the processes below one of ours, deepest last."""
    found: list[int] = []
    for child in _children(pid):
        found += [child, *descendants(child)]
    return found


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
