"""A real agent in a folder of its own, and a client that speaks to it over the real socket."""

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from agent.journal import Entry, Journal
from agent.policy import load_policy
from agent.protocol import Answer, Request, new_request, parse_answer, request_id, sign

REPOSITORY = Path(__file__).parents[3]
SERVER = "web1"
KEY_ID = "panel-1"
KEY = bytes(range(32, 64))


def write_policy(folder: Path, **settings: object) -> Path:
    """Make the folders and files of an agent and give its policy file."""
    for name in ("sites", "archive"):
        (folder / name).mkdir(exist_ok=True)
    key = folder / "key"
    key.touch(mode=0o600)
    key.write_bytes(KEY)
    shown = {
        "server": SERVER,
        "socket": str(folder / "agent.sock"),
        "state_dir": str(folder / "state"),
        "lock_dir": str(folder / "lock"),
        "sites_root": str(folder / "sites"),
        "grace_seconds": 0.5,
        **settings,
    }
    lines = [f"{name} = {_toml(value)}" for name, value in shown.items()]
    lines += ["[keys]", f'{KEY_ID} = "{key}"', "[stores]", f'archive = "{folder}/archive"']
    lines += ["[web]", f'config_dir = "{folder}/web"', ""]
    path = folder / "policy.toml"
    path.write_text("\n".join(lines))
    path.chmod(0o600)
    return path


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


class RunningAgent:
    """An agent process with the sample actions."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.folder = folder
        self.policy_file = write_policy(folder, **settings)
        self.policy = load_policy(self.policy_file)
        self.log = folder / "log"
        self.start()

    def start(self) -> None:
        """Start it and wait until it listens."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.agent.core.samples", str(self.policy_file)],
                cwd=REPOSITORY,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert b"listens on" in line, self.log.read_text()

    def stop(self) -> int:
        """Ask it to end and give its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def kill_all(self) -> None:
        """End it and all that it started, as a crash of the machine's cgroup would."""
        processes = [self.process.pid, *descendants(self.process.pid)]
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(20)
        wait_until(lambda: not any(is_running(pid) for pid in processes))

    def connect(self) -> "Client":
        """Open a connection."""
        return Client(self)

    def ask(self, action: str, arguments: Mapping[str, Any] | None = None, **extra: Any) -> Answer:
        """Ask one thing on a connection of its own and give the final answer."""
        with self.connect() as client:
            return client.ask(action, arguments, **extra)[-1]

    def entry(self, identity: str) -> Entry | None:
        """Give what the journal says of a request id."""
        return Journal(self.policy.state_dir).find(identity)

    def executed(self) -> list[str]:
        """Give the request ids in the order of their executions."""
        path = self.policy.sites_root / "executed"
        return path.read_text().split() if path.exists() else []


class Client:
    """One connection to the agent."""

    def __init__(self, agent: RunningAgent) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(20)
        self.socket.connect(str(agent.policy.socket))
        self._stream = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection."""
        self._stream.close()
        self.socket.close()

    def ask(self, action: str, arguments: Mapping[str, Any] | None = None, **extra: Any) -> list[Answer]:
        """Ask and give all answers."""
        return self.exchange(make_request(action, arguments, **extra))

    def exchange(self, request: Request, key: bytes = KEY) -> list[Answer]:
        """Send a request and give all answers."""
        self.send(sign(request, key))
        return list(self.answers(request, key))

    def begin(self, action: str, arguments: Mapping[str, Any] | None = None, **extra: Any) -> Request:
        """Ask, and wait only until the operation was accepted."""
        request = make_request(action, arguments, **extra)
        self.send(sign(request, KEY))
        accepted = parse_answer(self.read_line(), request, KEY, 0)
        assert accepted.kind == "accepted", accepted
        return request

    def answers(self, request: Request, key: bytes = KEY, sequence: int = 0) -> Iterator[Answer]:
        """Give the answers from the numbered one on, to the final one."""
        while True:
            answer = parse_answer(self.read_line(), request, key, sequence)
            yield answer
            if answer.is_final:
                return
            sequence += 1

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def read_line(self) -> bytes:
        """Give the next line, empty where the connection ended."""
        for _ in range(2):
            try:
                return self._stream.readline()
            except ConnectionResetError:
                # Told once, where the agent left with bytes of ours unread; what it wrote is still there.
                continue
        return b""


def make_request(action: str, arguments: Mapping[str, Any] | None = None, **extra: Any) -> Request:
    """Make a request of now, with the lock that is named or none."""
    altered = {name: extra.pop(name) for name in ("issued_at", "nonce") if name in extra}
    request = new_request(
        **{
            "key_id": KEY_ID,
            "server": SERVER,
            "id": new_id(),
            "action": action,
            "arguments": arguments or {},
            "deadline_seconds": 20,
            **extra,
        }
    )
    return replace(request, **altered)


def new_id(step: int | str = 1) -> str:
    """Give a request id that was never used."""
    return request_id(uuid.uuid4(), 1, step)


def wait_until(condition: Callable[[], bool], seconds: float = 15) -> None:
    """Wait for a fact; fail where it does not come."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Say whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """Give the processes that one has started."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Give the processes below one."""
    return [below for child in children(pid) for below in (child, *descendants(child))]
