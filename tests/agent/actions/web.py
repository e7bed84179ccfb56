"""Talking to the builtin web server in plain bytes, so that no client tidies a request up."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Response:
    """A status, headers in lower case, and a body."""

    status: int
    headers: dict[str, str]
    body: bytes


def ask(address: str, target: str, host: str, method: str = "GET") -> Response:
    """Send one request and give the answer."""
    name, _, port = address.rpartition(":")
    request = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    with socket.create_connection((name, int(port)), timeout=10) as connection:
        connection.sendall(request.encode("latin-1"))
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(": ") for line in lines)
    return Response(int(first.split()[1]), {key.lower(): value for key, _, value in pairs}, body)


@contextmanager
def web_server(config: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Give the address and the process of a web server that answers."""
    address = free_address()
    where = ["--config-dir", str(config), "--address", address]
    command = [sys.executable, "-m", "agent.tools.web_server", *where]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)
    try:
        ends = time.monotonic() + 20
        while not answers(address):
            assert process.poll() is None and time.monotonic() < ends, "the web server did not come up"
            time.sleep(0.02)
        yield address, process
    finally:
        process.kill()
        process.wait()


def answers(address: str) -> bool:
    """Say whether somebody listens there."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def free_address() -> str:
    """Give a loopback address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"
