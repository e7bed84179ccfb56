"""The pipe from an operation's process to the one that watches over it: JSON lines, trusted on both ends."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agent.protocol import canonical_bytes

CHUNK_BYTES = 65536


class ChannelWriter:
    """The operation's end. Nobody listening is no reason to stop working."""

    def __init__(self, descriptor: int) -> None:
        """Take the writing end of the pipe."""
        self._descriptor = descriptor

    def send(self, kind: str, body: Mapping[str, Any]) -> None:
        """Tell one thing."""
        line = memoryview(canonical_bytes({"kind": kind, "body": body}) + b"\n")
        with suppress(BrokenPipeError):
            while line:
                line = line[os.write(self._descriptor, line) :]


class ChannelReader:
    """The watcher's end."""

    def __init__(self, descriptor: int) -> None:
        """Take the reading end of the pipe."""
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.is_at_end = False
        self._buffer = b""

    def read(self) -> list[tuple[str, dict[str, Any]]]:
        """Give what has arrived, as (kind, body), without waiting for more."""
        while chunk := self._chunk():
            self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        messages = [json.loads(line) for line in lines]
        return [(message["kind"], message["body"]) for message in messages]

    def _chunk(self) -> bytes:
        try:
            chunk = os.read(self.descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return b""
        self.is_at_end = not chunk
        return chunk
