"""The agent's answers about itself. They change no site and are not journalled."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agent import VERSION
from agent.declarations.system import CancelOperation, Ping, ReadJournal
from agent.dispatch import Agent
from agent.journal import State
from agent.protocol import MAX_LINE_BYTES, canonical_bytes

_ROOM_BYTES = MAX_LINE_BYTES - 4096


def ping(agent: Agent, arguments: Ping) -> dict[str, object]:
    """Give server, version, whether the agent is root, and its time in Unix milliseconds."""
    now_ms = time.time_ns() // 1_000_000
    return {"server": agent.policy.server, "version": VERSION, "root": os.geteuid() == 0, "time_ms": now_ms}


def cancel_operation(agent: Agent, arguments: CancelOperation) -> dict[str, object]:
    """Ask the operation's processes to stop, once; who watches over it sees to the rest."""
    entry = agent.journal.request_cancel(arguments.request_id)
    is_running = entry is not None and entry.state is State.STARTED
    if entry and is_running and not entry.is_cancel_requested:
        with suppress(ProcessLookupError):
            os.killpg(entry.process.pid, signal.SIGTERM)
    return {"known": entry is not None, "running": is_running}


def read_journal(agent: Agent, arguments: ReadJournal) -> dict[str, object]:
    """Give a job's entries, newest first, as many as one line can carry."""
    shown: list[dict[str, object]] = []
    entries = agent.journal.of_job(arguments.job)
    room = _ROOM_BYTES
    for entry in entries:
        room -= len(canonical_bytes(entry.shown())) + 1
        if room < 0:
            break
        shown.append(entry.shown())
    return {"entries": shown, "truncated": len(shown) < len(entries)}


SYSTEM: dict[str, Callable[[Agent, Any], dict[str, object]]] = {
    Ping.action: ping,
    CancelOperation.action: cancel_operation,
    ReadJournal.action: read_journal,
}
