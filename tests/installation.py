"""A real agent and web server for one test, registered as a server of the test's database."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.conf import settings

from chp_site.demo.processes import free_port
from chp_site.install import Places, prepare
from sites.models import Server
from tests.processes import ROOT


@dataclass
class Installation:
    """One server: its folder, its processes, its row."""

    places: Places
    server: Server
    environment: dict[str, str]
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def home(self, site_id: int) -> Path:
        return self.places.state / "sites" / str(site_id)

    def store(self, site_id: int) -> Path:
        return self.places.state / "backups" / str(site_id)

    def start_agent(self) -> None:
        """Start the agent in a session of its own and wait until it answers."""
        self._start("agent", "-m", "agent", "serve", "--policy", str(self.places.policy))
        _until(lambda: _answers(socket.AF_UNIX, self.server.agent_socket), self.log)

    def start_web(self) -> None:
        """Start the builtin web server."""
        address = self.server.web_address
        config = str(self.places.state / "web")
        self._start("web", "-m", "agent.tools.web_server", "--config-dir", config, "--address", address)
        host, _, port = address.rpartition(":")
        _until(lambda: _answers(socket.AF_INET, (host, int(port))), self.log)

    def kill_agent(self) -> None:
        """Kill the agent with everything that it has started, as the end of a machine's power does."""
        agent = self.processes.pop("agent")
        pids = [agent.pid, *_descendants(agent.pid)]
        # Stopped first, so that none of them gets any further while the others are being killed.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                _send(pid, number)
        agent.wait()

    def stop(self) -> None:
        """End all that is left."""
        for process in self.processes.values():
            for pid in [*_descendants(process.pid), process.pid]:
                _send(pid, signal.SIGKILL)
            process.wait()

    def log(self) -> str:
        return (self.places.state / "log").read_text(errors="replace")[-3000:]

    def _start(self, name: str, *arguments: str) -> None:
        with (self.places.state / "log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


@pytest.fixture
def installation(process_environment: dict[str, str], transactional_db: None) -> Iterator[Installation]:
    """Give a running server in a folder that other users may enter."""
    state = Path(tempfile.mkdtemp(prefix="chp-test-"))
    # A name of its own, so that tests that share a state folder never share a key.
    name = f"server-{secrets.token_hex(4)}"
    places = Places(state, state / "hosting.conf", name, name, f"127.0.0.1:{free_port()}")
    prepare(places, https=False, hosts="localhost", test_domains=True)
    key = Path(settings.CHP_AGENT_KEYS_DIR) / f"{name}.key"
    shutil.copyfile(state / "keys" / "agents" / f"{name}.key", key)
    key.chmod(0o600)
    server = Server.objects.create(
        name=name, agent_socket=str(state / "run" / "agent.sock"), key_id=name, web_address=places.web_address
    )
    made = Installation(places, server, process_environment)
    try:
        made.start_web()
        made.start_agent()
        yield made
    finally:
        made.stop()
        key.unlink()
        shutil.rmtree(state, ignore_errors=True)


def _until(is_so: Callable[[], bool], log: Callable[[], str], seconds: float = 20) -> None:
    ends = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > ends:
            raise AssertionError(f"a process did not come up:\n{log()}")
        time.sleep(0.05)


def _answers(family: socket.AddressFamily, address: tuple[str, int] | str) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(address) == 0


def _descendants(pid: int) -> list[int]:
    """Give the processes below one that the test started, deepest last."""
    found: list[int] = []
    for child in _children(pid):
        found += [child, *_descendants(child)]
    return found


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
