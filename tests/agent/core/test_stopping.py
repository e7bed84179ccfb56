"""Dropped clients, cancelling, deadlines and killed processes."""

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from agent.journal import State
from agent.protocol import Request
from tests.agent.core.running import Client, RunningAgent, children, is_running, new_id, wait_until

StartAgent = Callable[..., RunningAgent]

LONG = {"site_id": 7, "milliseconds": 60_000}


def state(agent: RunningAgent, identity: str) -> str:
    entry = agent.entry(identity)
    return str(entry.state) if entry else "none"


def process(agent: RunningAgent, identity: str) -> int:
    entry = agent.entry(identity)
    assert entry is not None
    return entry.process.pid


def is_free(agent: RunningAgent) -> bool:
    return agent.ask("sample.work", {"site_id": 7}, lock="exclusive").kind == "result"


def begin_with_tool(
    client: Client, action: str, lock: str, seconds: int, **extra: int
) -> tuple[Request, int]:
    """Start an operation that waits for a tool deaf to SIGTERM; give the request and the tool's pid."""
    request = client.begin(action, {"site_id": 7, "seconds": seconds}, lock=lock, **extra)
    event = next(client.answers(request, sequence=1))
    return request, int(event.body["data"]["pid"])


@pytest.fixture
def tools() -> Iterator[list[int]]:
    """Tools that a test leaves running on purpose."""
    started: list[int] = []
    yield started
    for pid in started:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_dropped_client_does_not_stop_the_operation_and_the_journal_has_its_outcome(
    agent: RunningAgent,
) -> None:
    with agent.connect() as client:
        request = client.begin("sample.work", {"site_id": 7, "milliseconds": 600}, lock="exclusive")
    assert state(agent, request.id) == "STARTED"
    assert not is_free(agent)
    wait_until(lambda: state(agent, request.id) == "SUCCEEDED")
    wait_until(lambda: is_free(agent))


def test_a_client_that_does_not_read_does_not_stop_the_operation(agent: RunningAgent) -> None:
    with agent.connect() as client:
        request = client.begin("sample.work", {"site_id": 7, "milliseconds": 1000}, lock="exclusive")
        wait_until(lambda: state(agent, request.id) == "SUCCEEDED")


def test_a_dropped_clients_operation_still_ends_at_its_deadline(agent: RunningAgent) -> None:
    with agent.connect() as client:
        request = client.begin("sample.work", LONG, lock="exclusive", deadline_seconds=1)
    wait_until(lambda: state(agent, request.id) == "FAILED")
    wait_until(lambda: is_free(agent))


def test_cancelling_stops_an_operation_at_its_next_checkpoint(start_agent: StartAgent) -> None:
    agent = start_agent(grace_seconds=60)
    with agent.connect() as client:
        request = client.begin("sample.work", LONG, lock="exclusive")
        assert agent.ask("agent.cancel_operation", {"request_id": request.id}).body == {
            "known": True,
            "running": True,
        }
        final = list(client.answers(request, sequence=1))[-1]
    assert (final.body["code"], final.body["stopped"]) == ("cancelled", True)
    assert state(agent, request.id) == "CANCELLED"
    again = agent.ask("agent.cancel_operation", {"request_id": request.id})
    assert again.body == {"known": True, "running": False}


def test_a_tool_that_was_stopped_is_no_failure_of_its_own(start_agent: StartAgent) -> None:
    agent = start_agent(grace_seconds=60)
    with agent.connect() as client:
        request = client.begin(
            "sample.run_tool", {"site_id": 7, "seconds": 60, "deaf": False}, lock="exclusive"
        )
        next(client.answers(request, sequence=1))
        agent.ask("agent.cancel_operation", {"request_id": request.id})
        final = list(client.answers(request, sequence=2))[-1]
    assert final.body["code"] == "cancelled"
    assert state(agent, request.id) == "CANCELLED"


def test_cancelling_what_never_was_says_so(agent: RunningAgent) -> None:
    answer = agent.ask("agent.cancel_operation", {"request_id": new_id()})
    assert answer.body == {"known": False, "running": False}


def test_cancelling_kills_what_is_deaf_and_safe_to_kill(agent: RunningAgent) -> None:
    with agent.connect() as client:
        request, tool = begin_with_tool(client, "sample.run_tool", "exclusive", 60)
        agent.ask("agent.cancel_operation", {"request_id": request.id})
        final = list(client.answers(request, sequence=2))[-1]
    assert (final.body["code"], final.body["stopped"]) == ("cancelled", True)
    assert not is_running(tool)
    assert state(agent, request.id) == "CANCELLED"


def test_a_deadline_stops_an_operation_at_its_next_checkpoint(agent: RunningAgent) -> None:
    answer = agent.ask("sample.work", LONG, lock="exclusive", deadline_seconds=1)
    assert (answer.body["code"], answer.body["stopped"]) == ("deadline_passed", True)


def test_a_deadline_kills_a_tool_that_ignores_sigterm_where_that_is_safe(agent: RunningAgent) -> None:
    started = time.monotonic()
    with agent.connect() as client:
        request, tool = begin_with_tool(client, "sample.run_tool", "exclusive", 60, deadline_seconds=1)
        final = list(client.answers(request, sequence=2))[-1]
    assert (final.body["code"], final.body["stopped"]) == ("deadline_passed", True)
    assert not is_running(tool)
    assert state(agent, request.id) == "FAILED"
    assert time.monotonic() - started < 10
    wait_until(lambda: is_free(agent))


def test_a_deadline_leaves_running_what_is_not_safe_to_kill_and_says_so(agent: RunningAgent) -> None:
    with agent.connect() as client:
        request, tool = begin_with_tool(client, "sample.change_by_tool", "mutating", 4, deadline_seconds=1)
        final = list(client.answers(request, sequence=2))[-1]
        assert (final.body["code"], final.body["stopped"]) == ("deadline_passed", False)
        assert client.read_line() == b""
    assert is_running(tool)
    assert state(agent, request.id) == "STARTED"
    assert not is_free(agent)
    wait_until(lambda: state(agent, request.id) == "SUCCEEDED")
    wait_until(lambda: is_free(agent))


def test_a_killed_operation_is_interrupted(agent: RunningAgent) -> None:
    with agent.connect() as client:
        request = client.begin("sample.work", LONG, lock="exclusive")
        os.kill(process(agent, request.id), signal.SIGKILL)
        final = list(client.answers(request, sequence=1))[-1]
        assert (final.body["code"], final.body["stopped"]) == ("interrupted", True)
        assert client.ask("sample.work", {"site_id": 7}, lock="exclusive")[-1].kind == "result"
    assert state(agent, request.id) == "INTERRUPTED"
    assert agent.ask("sample.work", LONG, id=request.id, lock="exclusive").body["code"] == "interrupted"


def test_the_tools_of_a_killed_operation_end_with_it_where_that_is_safe(agent: RunningAgent) -> None:
    with agent.connect() as client:
        request, tool = begin_with_tool(client, "sample.run_tool", "exclusive", 60)
        os.kill(process(agent, request.id), signal.SIGKILL)
        assert list(client.answers(request, sequence=2))[-1].body["stopped"] is True
    assert not is_running(tool)


def test_a_tool_that_survives_its_operation_keeps_the_site_closed(
    agent: RunningAgent, tools: list[int]
) -> None:
    with agent.connect() as client:
        request, tool = begin_with_tool(client, "sample.change_by_tool", "mutating", 60)
        tools.append(tool)
        os.kill(process(agent, request.id), signal.SIGKILL)
        final = list(client.answers(request, sequence=2))[-1]
    assert (final.body["code"], final.body["stopped"]) == ("interrupted", False)
    agent.kill_all()
    agent.start()
    assert is_running(tool)
    assert not is_free(agent)
    os.kill(tool, signal.SIGKILL)
    wait_until(lambda: is_free(agent))


def test_a_killed_handler_loses_nothing(agent: RunningAgent) -> None:
    with agent.connect() as client:
        request = client.begin("sample.work", {"site_id": 7, "milliseconds": 1000}, lock="exclusive")
        (handler,) = children(agent.process.pid)
        os.kill(handler, signal.SIGKILL)
        wait_until(lambda: client.read_line() == b"")
    assert not is_free(agent)
    wait_until(lambda: state(agent, request.id) == "SUCCEEDED")
    wait_until(lambda: is_free(agent))


def test_a_killed_agent_finds_its_work_interrupted_after_the_restart(agent: RunningAgent) -> None:
    with agent.connect() as client:
        request = client.begin("sample.work", LONG, lock="exclusive")
        agent.kill_all()
    agent.start()
    body = agent.ask("agent.read_journal", {"job": request.id.partition(":")[0]}).body
    (entry,) = body["entries"]
    assert (entry["state"], entry["outcome"]["body"]["code"]) == (State.INTERRUPTED, "interrupted")
    assert is_free(agent)


def test_work_that_outlives_the_listening_process_is_not_called_interrupted(agent: RunningAgent) -> None:
    with agent.connect() as client:
        request = client.begin("sample.work", {"site_id": 7, "milliseconds": 2500}, lock="exclusive")
        agent.process.kill()
        agent.process.wait()
        agent.start()
        assert state(agent, request.id) == "STARTED"
        assert not is_free(agent)
        assert list(client.answers(request, sequence=1))[-1].kind == "result"
    assert state(agent, request.id) == "SUCCEEDED"
