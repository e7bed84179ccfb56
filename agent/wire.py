"""Lines over the connected socket, with limits on size and time."""

import socket
import time

from agent.exceptions import LineTooLong
from agent.protocol import MAX_LINE_BYTES
from agent.stop_signal import StopSignal

IDLE_SECONDS = 900.0
SEND_SECONDS = 10.0


class Wire:
    """One connection. A client that is gone or does not read is noted, and never stops the work."""

    def __init__(self, connection: socket.socket, stop: StopSignal) -> None:
        """Take the connected socket and the signal that ends all waiting."""
        self.is_open = True
        self._connection = connection
        self._stop = stop
        self._buffer = bytearray()
        connection.settimeout(SEND_SECONDS)

    def receive(self) -> bytes | None:
        """Give the next line without its newline; None when there will be none. Raises LineTooLong."""
        until = time.monotonic() + IDLE_SECONDS
        while self.is_open and not self._stop.is_requested:
            line, newline, rest = self._buffer.partition(b"\n")
            if len(line) >= MAX_LINE_BYTES:
                raise LineTooLong
            if newline:
                self._buffer = rest
                return bytes(line)
            self._fill(until - time.monotonic())
        return None

    def send(self, line: bytes) -> None:
        """Send a line, if the client is still there."""
        try:
            if self.is_open:
                self._connection.sendall(line)
        except OSError:
            self.is_open = False

    def close(self) -> None:
        """Close this process's end."""
        self._connection.close()

    def _fill(self, seconds: float) -> None:
        if seconds <= 0:
            self.is_open = False
        elif self._stop.wait_readable(self._connection, seconds):
            self._buffer += self._receive_bytes()

    def _receive_bytes(self) -> bytes:
        try:
            received = self._connection.recv(65536)
        except OSError:
            received = b""
        self.is_open = self.is_open and bool(received)
        return received
