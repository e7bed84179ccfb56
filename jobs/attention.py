"""What a supervisor waits on: its slots, the bell, signals, and the time."""

import selectors
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from jobs.listener import Listener, new_listener
from jobs.slot_process import Slot


@dataclass(frozen=True)
class Heard:
    """What ended a wait: slots that have something to say, and whether there may be new work."""

    slots: tuple[Slot, ...] = ()
    bell: bool = False


class Attention:
    """Waits for whatever comes first. Signals are noted at once and end the wait."""

    def __init__(self, note_signal: Callable[[], None]) -> None:
        self._note = note_signal
        self._selector = selectors.DefaultSelector()
        self._alarm, self._waker = socket.socketpair()
        self._alarm.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._alarm, selectors.EVENT_READ)
        self._listener: Listener = new_listener()
        self._heard_on: tuple[int, int] | None = None
        self._follow_listener()
        signal.signal(signal.SIGTERM, self._handle)
        signal.signal(signal.SIGINT, self._handle)

    def watch(self, slot: Slot) -> None:
        """Wait on this slot too."""
        self._selector.register(slot.orders, selectors.EVENT_READ, slot)

    def forget(self, slot: Slot) -> None:
        """Wait on it no more. Before its pipe is closed."""
        self._selector.unregister(slot.orders)

    def wait(self, until: float, *, idle: bool) -> Heard:
        """Wait until a moment of the monotonic clock at most. `idle` says that new work could be taken."""
        while True:
            look = self._listener.look_seconds if idle else None
            left = max(0.0, until - time.monotonic())
            ready = self._selector.select(left if look is None else min(left, look))
            slots = tuple(key.data for key, _ in ready if key.data is not None)
            quiet = len(slots) == len(ready)
            bell = self._ask_listener() if look is not None or not quiet or left == 0 else False
            if not quiet:
                self._hush()
            if ready or bell or left == 0:
                return Heard(slots, bell)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()
        self._selector.close()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._note()
        try:
            self._waker.send(b"\0")
        except BlockingIOError:
            return

    def _hush(self) -> None:
        try:
            self._alarm.recv(1024)
        except BlockingIOError:
            return

    def _ask_listener(self) -> bool:
        bell = self._listener.heard()
        self._follow_listener()
        return bell

    def _follow_listener(self) -> None:
        """Wait on the listener's connection; a new one is another, also with the old one's number.

        At once: the number of a connection that is closed may be the next slot's.
        """
        now = self._listener.connected()
        if now == self._heard_on:
            return
        if self._heard_on is not None:
            self._selector.unregister(self._heard_on[1])
        if now is not None:
            self._selector.register(now[1], selectors.EVENT_READ)
        self._heard_on = now
