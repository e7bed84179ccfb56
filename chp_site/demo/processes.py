"""The processes of a demo: started here, ended here, by their own handles and never by name."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

BASE = Path(__file__).resolve().parents[2]
STOP_SECONDS = 20.0


class StartFailed(Exception):
    """A process of the demo did not come up."""


class Processes:
    """A group of child processes that ends with its `with` block, the last started first."""

    def __init__(self, environment: Mapping[str, str], logs: Path) -> None:
        self._environment = {**os.environ, **environment, "PYTHONPATH": str(BASE), "PYTHONUNBUFFERED": "1"}
        self._logs = logs
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Processes":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in reversed(list(self.running)):
            self.stop(name)

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start Python with these arguments, in a session of its own, its output in a log file."""
        with (self._logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=BASE,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running[name] = process
        return process

    def call(self, name: str, *arguments: str, secret: str = "") -> int:
        """Run Python to its end, output in a log file; give the exit code. `secret` goes to its input."""
        with (self._logs / f"{name}.log").open("ab") as log:
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=BASE,
                env=self._environment,
                input=secret.encode(),
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        return done.returncode

    def stop(self, name: str) -> None:
        """Ask the process to end, then make it."""
        process = self.running.pop(name)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def require_alive(self) -> None:
        """Raise StartFailed, with the end of its log, where a process has ended by itself."""
        for name, process in self.running.items():
            if process.poll() is not None:
                raise StartFailed(f"{name} ended with code {process.returncode}:\n{self.tail(name)}")

    def tail(self, name: str, lines: int = 15) -> str:
        """Give the last lines of a log."""
        text = (self._logs / f"{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def wait_for_port(self, name: str, address: str, seconds: float = 30) -> None:
        """Wait until somebody answers at HOST:PORT. Raises StartFailed."""
        host, _, port = address.rpartition(":")
        self._wait(name, seconds, lambda: _answers(socket.AF_INET, (host, int(port))))

    def wait_for_socket(self, name: str, path: Path, seconds: float = 30) -> None:
        """Wait until somebody answers at a Unix socket. Raises StartFailed."""
        self._wait(name, seconds, lambda: _answers(socket.AF_UNIX, str(path)))

    def _wait(self, name: str, seconds: float, is_up: Callable[[], bool]) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self.require_alive()
            if is_up():
                return
            time.sleep(0.05)
        raise StartFailed(f"{name} did not answer within {seconds:.0f} s:\n{self.tail(name)}")


def _answers(family: socket.AddressFamily, address: tuple[str, int] | str) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        return probe.connect_ex(address) == 0


def free_port(wanted: int = 0) -> int:
    """Give the wanted loopback port if it is free, else any free one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise StartFailed("there is no free port on 127.0.0.1")
