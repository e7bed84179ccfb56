"""SIGTERM as something that a poll can wait for, so that none is missed between a look and a wait."""

import select
import signal
import socket
from types import FrameType


class StopSignal:
    """Notes SIGTERM and SIGINT; readable from the moment any signal arrives. One at a time per process."""

    def __init__(self) -> None:
        """Take over the signals of this process."""
        self.is_requested = False
        self._read_end, self._write_end = socket.socketpair()
        self._read_end.setblocking(False)
        self._write_end.setblocking(False)
        signal.set_wakeup_fd(self._write_end.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def wait_readable(self, connection: socket.socket, seconds: float | None) -> bool:
        """Wait until the socket can be read (True), or a signal came or the time is over (False)."""
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        poll.register(self._read_end, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)}
        if self._read_end.fileno() in ready:
            self._read_end.recv(4096)
        return connection.fileno() in ready

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.is_requested = True
