"""The accept loop: one process that listens, and one child for each connection."""

import errno
import fcntl
import logging
import os
import signal
import socket
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agent.actions.table import ACTIONS
from agent.declarations.schema import Declaration
from agent.declarations.table import DECLARATIONS
from agent.dispatch import Action, Agent
from agent.exceptions import Overloaded, PeerRefused, ServerRefused
from agent.peer import check_peer
from agent.policy import Policy
from agent.runner import start_child
from agent.session import Session, refuse
from agent.stop_signal import StopSignal
from agent.wire import Wire

MOST_CONNECTIONS = 256
BACKLOG = 128

log = logging.getLogger("agent")


def serve(
    policy: Policy,
    actions: Mapping[str, Action] = ACTIONS,
    declarations: Mapping[str, type[Declaration]] = DECLARATIONS,
) -> None:
    """Listen and serve until SIGTERM. Raises ServerRefused where the agent cannot listen."""
    agent = Agent(policy, actions, declarations)
    policy.socket.parent.mkdir(parents=True, exist_ok=True)
    os.umask(0o077)
    os.chdir("/")
    for folder in (policy.state_dir, policy.lock_dir):
        _own_folder(folder)
    guard = _guard(policy.socket)
    agent.journal.prepare()
    agent.nonces.prepare()
    with _listen(policy) as listener:
        server = Server(agent, listener, guard)
        print(f"hosting-agent listens on {policy.socket} as {policy.server}", flush=True)
        server.run()


class Server:
    """Accepts until it is told to stop, then waits for what still runs."""

    def __init__(self, agent: Agent, listener: socket.socket, guard: int) -> None:
        """Take the listening socket and the descriptor whose lock says that it is in use."""
        self._agent = agent
        self._listener = listener
        self._guard = guard
        self._stop = StopSignal()
        self._children: set[int] = set()
        # A child's end must wake the loop, so that it is reaped.
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def run(self) -> None:
        """Serve until SIGTERM, wait for the connections up to the policy's grace, and leave."""
        while not self._stop.is_requested:
            if self._stop.wait_readable(self._listener, None):
                self._accept()
            self._reap()
        self._agent.policy.socket.unlink(missing_ok=True)
        self._listener.close()
        self._drain()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            log.warning("cannot accept: %s", error.strerror)
            time.sleep(0.1)
            return
        with connection:
            if len(self._children) >= MOST_CONNECTIONS:
                refuse(Wire(connection, self._stop), Overloaded())
                return
            self._children.add(start_child(lambda: self._handle(connection), own_group=True))

    def _handle(self, connection: socket.socket) -> None:
        self._listener.close()
        os.close(self._guard)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        wire = Wire(connection, StopSignal())
        if self._stop.is_requested:
            return
        try:
            check_peer(connection, self._agent.policy.allowed_uids)
        except PeerRefused as error:
            refuse(wire, error)
        else:
            Session(self._agent, wire).run()

    def _reap(self) -> None:
        for child in list(self._children):
            if os.waitpid(child, os.WNOHANG)[0]:
                self._children.discard(child)

    def _drain(self) -> None:
        for child in self._children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        until = time.monotonic() + self._agent.policy.grace_seconds
        while self._children and time.monotonic() < until:
            time.sleep(0.05)
            self._reap()
        if self._children:
            log.warning("left with %d connections whose operations still run", len(self._children))


def _own_folder(folder: Path) -> None:
    """Make a folder of the agent's, or refuse one that another user could have filled."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ServerRefused(f"{folder} must be the agent's own and writable by nobody else")


def _guard(path: Path) -> int:
    """Lock a file beside the socket for as long as this agent accepts; the handlers give it up."""
    guard = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(guard)
        raise ServerRefused(f"another agent listens on {path}") from None
    return guard


def _listen(policy: Policy) -> socket.socket:
    _remove_stale(policy.socket)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous = os.umask(0o117)
    try:
        listener.bind(str(policy.socket))
        if policy.socket_group is not None:
            os.chown(policy.socket, -1, policy.socket_group)
    except OSError as error:
        raise ServerRefused(f"cannot listen on {policy.socket}: {error.strerror or error}") from error
    finally:
        os.umask(previous)
    listener.listen(BACKLOG)
    return listener


def _remove_stale(path: Path) -> None:
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise ServerRefused(f"{path} is there and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(str(path)) != errno.ECONNREFUSED:
            raise ServerRefused(f"something listens on {path}")
    path.unlink()
