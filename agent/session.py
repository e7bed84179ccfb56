"""One connection, which is one attempt of a job: its requests one after another, under one site lock."""

import logging
import os
import time
from collections.abc import Mapping
from typing import Any

from agent.channel import ChannelReader, ChannelWriter
from agent.declarations.schema import Lock
from agent.dispatch import Agent, Work, prepare
from agent.exceptions import (
    AgentError,
    IdReused,
    InvalidArguments,
    LineTooLong,
    ProtocolError,
    StillRunning,
    UnknownAction,
)
from agent.execution import execute
from agent.journal import Entry, Outcome, State
from agent.protocol import (
    VERSION,
    Answer,
    Request,
    authenticate,
    check_meant_for,
    refuse_unsigned,
    sign_answer,
)
from agent.runner import start_child
from agent.site_lock import SiteLock, take_site_lock
from agent.supervision import Supervision
from agent.system import SYSTEM
from agent.wire import Wire

log = logging.getLogger("agent")


class Answers:
    """The numbered, signed answers to one request."""

    def __init__(self, wire: Wire, request: Request, key: bytes) -> None:
        """Take where to, what for, and what to sign with."""
        self._wire = wire
        self._request = request
        self._key = key
        self._sequence = 0

    def send(self, kind: str, body: Mapping[str, Any]) -> None:
        """Give the next answer."""
        answer = Answer(VERSION, self._request.id, self._request.nonce, self._sequence, kind, body)
        self._wire.send(sign_answer(answer, self._key))
        self._sequence += 1


class Session:
    """Serves one connection until it closes, the agent stops, or something unproven comes in."""

    def __init__(self, agent: Agent, wire: Wire) -> None:
        """Take the agent and the connection, whose peer was checked."""
        self._agent = agent
        self._wire = wire
        self._site_lock: SiteLock | None = None
        self._is_over = False

    def run(self) -> None:
        """Serve request after request. Locks end with this process and those that it started."""
        try:
            while not self._is_over and (line := self._wire.receive()) is not None:
                self._serve(line)
        except LineTooLong as error:
            refuse(self._wire, error)

    def _serve(self, line: bytes) -> None:
        try:
            request = authenticate(line, self._agent.policy.keys)
        except ProtocolError as error:
            refuse(self._wire, error)
            self._is_over = True
            return
        answers = Answers(self._wire, request, self._agent.policy.keys[request.key_id])
        outcome = self._outcome(request, answers)
        shown = outcome.body["code"] if outcome.kind == "error" else outcome.kind
        log.info("%s %s %s", request.action, request.id, shown)
        answers.send(outcome.kind, outcome.body)

    def _outcome(self, request: Request, answers: Answers) -> Outcome:
        try:
            return self._answer(request, answers)
        except AgentError as error:
            return Outcome("error", error.body())
        except Exception:
            log.exception("internal error at %s %s", request.action, request.id)
            self._is_over = True
            return Outcome("error", AgentError("internal error, see the agent's log").body())

    def _answer(self, request: Request, answers: Answers) -> Outcome:
        now_ms = time.time_ns() // 1_000_000
        check_meant_for(request, self._agent.policy.server, now_ms)
        self._agent.nonces.spend(request.nonce, request.issued_at, now_ms)
        work = prepare(request, self._agent)
        if request.action in SYSTEM:
            return Outcome("result", SYSTEM[request.action](self._agent, work.arguments))
        if request.action not in self._agent.actions:
            raise UnknownAction(f"{request.action} is declared, but this agent cannot do it")
        if entry := self._agent.journal.find(request.id):
            return _repeated(entry, work)
        self._lock(work)
        return self._operate(work, answers) or _repeated(self._agent.journal.find(request.id), work)

    def _lock(self, work: Work) -> None:
        if work.lock is Lock.NONE or work.site_id is None:
            return
        if self._site_lock is None:
            self._site_lock = take_site_lock(self._agent.policy.lock_dir, work.site_id, work.lock)
        if self._site_lock.site_id != work.site_id or not self._site_lock.lock.covers(work.lock):
            held = f"{self._site_lock.lock} on site {self._site_lock.site_id}"
            raise InvalidArguments(f"lock: this connection holds {held}; use another connection")

    def _operate(self, work: Work, answers: Answers) -> Outcome | None:
        deadline = time.monotonic() + work.deadline_seconds
        read_end, write_end = os.pipe()

        def operation() -> None:
            self._wire.close()
            os.close(read_end)
            execute(self._agent, work, deadline, ChannelWriter(write_end))

        pid = start_child(operation, own_group=True)
        os.close(write_end)
        supervision = Supervision(self._agent, work, pid, ChannelReader(read_end), deadline)
        outcome = supervision.watch(answers.send)
        # What was left running still works under this lock, so nothing may follow it here.
        self._is_over = self._is_over or supervision.is_left_running
        return outcome


def refuse(wire: Wire, error: AgentError) -> None:
    """Refuse one who is not proven, without a signature, and say so in the log."""
    log.warning("- - %s", error.code)
    wire.send(refuse_unsigned(error.code, str(error)))


def _repeated(entry: Entry | None, work: Work) -> Outcome:
    if entry is None:
        raise AgentError("the journal lost an entry")
    if (entry.claim.action, entry.claim.digest) != (work.claim.action, work.claim.digest):
        raise IdReused
    if entry.state is State.STARTED or entry.outcome is None:
        raise StillRunning
    return entry.outcome
