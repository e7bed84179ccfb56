"""The one place that opens an agent's socket: one session per attempt, signed both ways."""

import logging
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings

from agent import protocol
from agent.declarations import schema
from agent.declarations.schema import Declaration
from agent.declarations.system import CancelOperation, Ping, ReadJournal
from agent.protocol import Answer, PolicyRefused, ProtocolError, UnsignedRefusal
from jobs.exceptions import AttemptFailed, CancelAsked, DeadlinePassed, NotStarted, WorkLost
from sites.models import Server

logger = logging.getLogger(__name__)
CONNECT_SECONDS = 5.0
QUESTION_SECONDS = 15.0
# How often a waiting session looks whether its job is still wanted.
LOOK_SECONDS = 1.0
# After its own deadline the agent needs a moment to stop what it runs and to say so.
AGENT_GRACE_SECONDS = 30.0
# For this long a session whose connection dropped waits for the agent to come back and tell.
RETURN_SECONDS = 60.0
# Nothing was executed: the job goes back into the queue and spends no attempt.
NOT_STARTED_CODES = frozenset({"site_busy", "still_running", "stale", "overloaded"})
# Another attempt may fare better; every other error code would only be repeated.
RETRYABLE_CODES = frozenset({"failed", "internal"})
Hear = Callable[[Answer], None]


class AgentUnreachable(Exception):
    """No connection to the agent could be made, so nothing was asked of it."""


class _Dropped(Exception):
    """The connection ended before the final answer."""


class AgentSession:
    """One attempt's conversation with one agent. The site's lock lives as long as its connection.

    `still_wanted` is asked about once a second while an operation runs: False asks the agent to stop it.
    """

    def __init__(
        self,
        server: Server | None,
        job: uuid.UUID,
        epoch: int,
        lock: str,
        *,
        still_wanted: Callable[[], bool],
    ) -> None:
        if server is None:
            raise NotStarted("the job has no server", busy=False)
        self._server = server
        self._job = job
        self._epoch = epoch
        self._lock = lock
        self._still_wanted = still_wanted
        self._connection: _Connection | None = None

    def close(self) -> None:
        """End the conversation; the agent frees the site once nothing runs there for it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, step: str, declared: Declaration, seconds: float, hear: Hear) -> dict[str, Any]:
        """Have one action done within `seconds` and give its result; every answer on the way is heard.

        Raises NotStarted, AttemptFailed, CancelAsked, DeadlinePassed, WorkLost.
        """
        request_id = protocol.request_id(self._job, self._epoch, step)
        try:
            connection = self._connected()
            connection.send(declared, request_id, self._lock, max(1, int(seconds)))
        except (AgentUnreachable, OSError) as error:
            self.close()
            raise NotStarted(f"the agent of {self._server} does not answer ({error})", busy=False) from error
        except ProtocolError as error:
            raise AttemptFailed(str(error), code=error.code, retryable=False) from error
        try:
            answer = self._await(connection, request_id, seconds, hear)
        except UnsignedRefusal as error:
            # It could not tell who asked, so it has done nothing for us.
            self.close()
            raise NotStarted(str(error), busy=False) from error
        except (_Dropped, ProtocolError, OSError) as error:
            self.close()
            logger.warning("%s: the connection to the agent dropped: %s", request_id, error)
            return self._outcome_by_journal(request_id, seconds)
        return self._judge(answer.kind, answer.body)

    def earlier_result(self, step: str) -> dict[str, Any] | None:
        """Give the result of a step that an earlier epoch of this job completed, by the agent's journal."""
        for entry in self._journal():
            job_epoch, entry_step = entry["id"].split(":")[1:3]
            if int(job_epoch) >= self._epoch:
                continue
            if entry["state"] == "STARTED":
                raise NotStarted(f"step {entry_step} of an earlier claim still runs at the server", busy=True)
            if entry_step == step and entry["state"] == "SUCCEEDED":
                return _body(entry)
        return None

    def _connected(self) -> "_Connection":
        if self._connection is None:
            self._connection = _Connection(self._server)
        return self._connection

    def _await(self, connection: "_Connection", request_id: str, seconds: float, hear: Hear) -> Answer:
        ends = time.monotonic() + seconds + AGENT_GRACE_SECONDS
        stopping = False
        while time.monotonic() < ends:
            answer = connection.receive()
            if answer is not None and answer.is_final:
                return answer
            if answer is not None:
                hear(answer)
            elif not stopping and not self._still_wanted():
                stopping = True
                ask(self._server, CancelOperation(request_id=request_id))
        raise DeadlinePassed(f"timed out after {seconds:.0f} s", stopped=False)

    def _outcome_by_journal(self, request_id: str, seconds: float) -> dict[str, Any]:
        """Ask the journal what became of an operation whose answers were lost."""
        ends = time.monotonic() + max(seconds, 0) + AGENT_GRACE_SECONDS
        returns = time.monotonic() + RETURN_SECONDS
        while time.monotonic() < ends:
            self._still_wanted()
            try:
                entry = next((line for line in self._journal() if line["id"] == request_id), None)
            except NotStarted:
                if time.monotonic() > returns:
                    break
                time.sleep(LOOK_SECONDS)
                continue
            if entry is None:
                raise WorkLost("the connection to the agent dropped and its journal does not know the work")
            if entry["state"] != "STARTED":
                kind = "result" if entry["state"] == "SUCCEEDED" else "error"
                return self._judge(kind, _body(entry))
            time.sleep(LOOK_SECONDS)
        raise WorkLost(f"the connection to the agent of {self._server} dropped and it does not come back")

    def _journal(self) -> list[dict[str, Any]]:
        try:
            answer = ask(self._server, ReadJournal(job=str(self._job)))
        except AgentUnreachable as error:
            raise NotStarted(f"the agent of {self._server} does not answer ({error})", busy=False) from error
        return list(answer["entries"])

    def _judge(self, kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Give a result's body, or raise what an error's code means for the job."""
        if kind == "result":
            return dict(body)
        code = str(body.get("code", "failed"))
        message = str(body.get("message") or f"the agent answered: {code}")
        if code in NOT_STARTED_CODES:
            raise NotStarted(message, busy=code in ("site_busy", "still_running"))
        if code == "cancelled":
            raise CancelAsked(message, stopped=bool(body.get("stopped", True)))
        if code == "deadline_passed":
            raise DeadlinePassed(message, stopped=bool(body.get("stopped", True)))
        if code == "interrupted":
            raise WorkLost(message)
        raise AttemptFailed(message, code=code, retryable=code in RETRYABLE_CODES)


def _body(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Give the body of a journal entry's outcome; an entry without one speaks by its state alone."""
    outcome = entry["outcome"] or {"body": {"code": str(entry["state"]).lower()}}
    return dict(outcome["body"])


class _Connection:
    """A Unix socket with the agent behind it, and the request that is under way on it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._key = _key_of(server)
        self._buffer = b""
        self._request: protocol.Request | None = None
        self._sequence = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(CONNECT_SECONDS)
        try:
            self._socket.connect(server.agent_socket)
        except OSError as error:
            self._socket.close()
            raise AgentUnreachable(error.strerror or str(error)) from error

    def close(self) -> None:
        self._socket.close()

    def send(self, declared: Declaration, request_id: str, lock: str, seconds: int) -> None:
        """Sign and send a request. Raises OSError where the agent does not take it."""
        self._request = protocol.new_request(
            key_id=self._server.key_id,
            server=self._server.name,
            id=request_id,
            action=declared.action,
            arguments=schema.dump(declared),
            lock=lock,
            deadline_seconds=min(seconds, protocol.MAX_DEADLINE_SECONDS),
        )
        self._sequence = 0
        self._socket.sendall(protocol.sign(self._request, self._key))

    def receive(self, seconds: float = LOOK_SECONDS) -> Answer | None:
        """Give the next answer, or None when none came in time. Raises _Dropped or a ProtocolError."""
        if self._request is None:
            raise _Dropped("nothing was asked")
        line = self._line(seconds)
        if line is None:
            return None
        answer = protocol.parse_answer(line, self._request, self._key, self._sequence)
        self._sequence += 1
        return answer

    def _line(self, seconds: float) -> bytes | None:
        self._socket.settimeout(seconds)
        while b"\n" not in self._buffer:
            try:
                received = self._socket.recv(65536)
            except TimeoutError:
                return None
            if not received:
                raise _Dropped("the agent closed the connection")
            self._buffer += received
            if len(self._buffer) > 4 * protocol.MAX_LINE_BYTES:
                raise _Dropped("the agent's answer has no end")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


def ask(server: Server, declared: Declaration) -> dict[str, Any]:
    """Put a question to the agent itself (ping, journal, cancel) on a connection of its own.

    Raises AgentUnreachable, also where the answer does not come or is not the agent's.
    """
    connection = _Connection(server)
    try:
        connection.send(declared, protocol.request_id(uuid.uuid4(), 0, "ask"), "none", int(QUESTION_SECONDS))
        answer = connection.receive(QUESTION_SECONDS)
    except (_Dropped, ProtocolError, OSError) as error:
        raise AgentUnreachable(str(error)) from error
    finally:
        connection.close()
    if answer is None or not answer.is_final:
        raise AgentUnreachable(f"no answer within {QUESTION_SECONDS:.0f} s")
    if answer.kind == "error":
        raise AgentUnreachable(str(answer.body.get("message")))
    return dict(answer.body)


def ping(server: Server) -> dict[str, Any]:
    """Ask the agent who it is. Raises AgentUnreachable."""
    return ask(server, Ping())


def _key_of(server: Server) -> bytes:
    try:
        return protocol.load_key(settings.CHP_AGENT_KEYS_DIR / f"{server.key_id}.key")
    except PolicyRefused as error:
        raise AgentUnreachable(str(error)) from error
