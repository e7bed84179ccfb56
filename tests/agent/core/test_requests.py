"""What the agent accepts and refuses, over the real socket."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent import VERSION
from agent.exceptions import UnsignedRefusal
from agent.protocol import MAX_AGE_MS, MAX_AHEAD_MS, MAX_LINE_BYTES, canonical_bytes, parse_answer, sign
from tests.agent.core.running import KEY, Client, RunningAgent, make_request, new_id


def unsigned_refusal(client: Client, line: bytes) -> str:
    """Send a line and give the code of the unsigned refusal, after which the connection must be closed."""
    client.send(line)
    answer = client.read_line()
    assert client.read_line() == b""
    with pytest.raises(UnsignedRefusal) as caught:
        parse_answer(answer, make_request("agent.ping"), KEY)
    return caught.value.refusal_code


def test_ping_tells_who_the_agent_is(agent: RunningAgent) -> None:
    body = agent.ask("agent.ping").body
    assert (body["server"], body["version"], body["root"]) == ("web1", VERSION, os.geteuid() == 0)
    assert abs(body["time_ms"] - time.time() * 1000) < 5000


def test_an_operation_tells_its_course_and_its_result(agent: RunningAgent) -> None:
    with agent.connect() as client:
        answers = client.ask("sample.work", {"site_id": 7, "milliseconds": 10}, lock="exclusive")
    assert [answer.kind for answer in answers] == ["accepted", "progress", "checkpoint", "event", "result"]
    assert [answer.sequence for answer in answers] == [0, 1, 2, 3, 4]
    assert answers[1].body == {"percent": 10, "step": "working"}
    assert answers[2].body == {"name": "a while"}
    assert answers[3].body == {"message": "worked", "data": {"site": 7}}
    assert answers[4].body == {"site_id": 7}


def test_requests_of_one_connection_are_served_in_turn(agent: RunningAgent) -> None:
    first = make_request("sample.work", {"site_id": 7, "milliseconds": 100}, lock="exclusive")
    second = make_request("agent.ping")
    with agent.connect() as client:
        client.send(sign(first, KEY) + sign(second, KEY))
        assert list(client.answers(first))[-1].kind == "result"
        assert list(client.answers(second))[-1].body["server"] == "web1"


def test_an_altered_request_is_refused_and_the_connection_closed(agent: RunningAgent) -> None:
    line = sign(make_request("sample.work", {"site_id": 7}, lock="exclusive"), KEY)
    with agent.connect() as client:
        assert unsigned_refusal(client, line.replace(b'"site_id":7', b'"site_id":8')) == "altered"
    assert agent.executed() == []


def test_an_unsigned_request_is_refused(agent: RunningAgent) -> None:
    with agent.connect() as client:
        line = canonical_bytes(vars(make_request("agent.ping"))) + b"\n"
        assert unsigned_refusal(client, line) == "unsigned"


def test_an_unknown_key_is_refused(agent: RunningAgent) -> None:
    with agent.connect() as client:
        assert (
            unsigned_refusal(client, sign(make_request("agent.ping", key_id="other"), KEY)) == "unknown_key"
        )


@pytest.mark.parametrize("shift", [-MAX_AGE_MS - 5000, MAX_AHEAD_MS + 5000])
def test_a_request_of_another_time_is_refused_and_names_clock_skew(agent: RunningAgent, shift: int) -> None:
    answer = agent.ask("agent.ping", issued_at=time.time_ns() // 1_000_000 + shift)
    assert (answer.kind, answer.body["code"]) == ("error", "stale")
    assert "clock skew" in answer.body["message"]


def test_a_copied_request_is_refused_also_after_a_restart(agent: RunningAgent) -> None:
    request = make_request("agent.ping")
    with agent.connect() as client:
        assert client.exchange(request)[-1].kind == "result"
        assert client.exchange(request)[-1].body["code"] == "replayed"
    agent.kill_all()
    agent.start()
    with agent.connect() as client:
        assert client.exchange(request)[-1].body["code"] == "replayed"


@pytest.mark.parametrize(
    ("request_changes", "code"),
    [
        ({"action": "sample.nothing"}, "unknown_action"),
        ({"action": "sample.missing", "arguments": {}, "lock": "none"}, "unknown_action"),
        ({"server": "web2"}, "wrong_server"),
        ({"arguments": {"site_id": 7, "command": "ls"}}, "invalid_arguments"),
        ({"arguments": {}}, "invalid_arguments"),
        ({"arguments": {"site_id": "7\0"}}, "invalid_arguments"),
        ({"lock": "none"}, "invalid_arguments"),
        ({"lock": "shared"}, "invalid_arguments"),
        ({"action": "agent.ping", "arguments": {}, "lock": "shared"}, "invalid_arguments"),
    ],
)
def test_a_proven_request_that_may_not_be_done_is_refused_with_a_signed_code(
    agent: RunningAgent, request_changes: dict[str, Any], code: str
) -> None:
    request = replace(make_request("sample.work", {"site_id": 7}, lock="exclusive"), **request_changes)
    with agent.connect() as client:
        (answer,) = client.exchange(request)
        assert (answer.kind, answer.body["code"]) == ("error", code)
        assert answer.body["retryable"] is False
        assert client.ask("agent.ping")[-1].kind == "result"
    assert agent.executed() == []
    assert agent.entry(request.id) is None


def test_a_stronger_lock_than_needed_is_accepted(agent: RunningAgent) -> None:
    assert agent.ask("sample.work", {"site_id": 7}, lock="mutating").kind == "result"


def test_an_action_that_the_policy_leaves_out_is_refused(start_agent: Callable[..., RunningAgent]) -> None:
    agent = start_agent(allowed_actions=["sample.look"])
    assert agent.ask("sample.look", {"site_id": 7}, lock="shared").kind == "result"
    assert agent.ask("sample.work", {"site_id": 7}, lock="exclusive").body["code"] == "action_not_allowed"
    assert agent.ask("agent.ping").kind == "result"


def test_a_line_that_is_too_long_is_refused_before_it_ends(agent: RunningAgent) -> None:
    with agent.connect() as client:
        assert unsigned_refusal(client, b"x" * (MAX_LINE_BYTES + 1)) == "too_long"
    assert agent.ask("agent.ping").kind == "result"


def test_the_longest_line_is_read(agent: RunningAgent) -> None:
    request = make_request("agent.ping", {"text": ""})
    padding = MAX_LINE_BYTES - len(sign(request, KEY))
    request = replace(request, arguments={"text": "x" * padding})
    with agent.connect() as client:
        assert client.exchange(request)[-1].body["code"] == "invalid_arguments"


@pytest.mark.parametrize(
    "garbage", [b"\n", b"\0\0\0\n", b"GET / HTTP/1.1\r\n", b"\xff\xfe\n", b"[" * 5000 + b"\n"]
)
def test_garbage_is_refused_and_the_agent_lives_on(agent: RunningAgent, garbage: bytes) -> None:
    with agent.connect() as client:
        assert unsigned_refusal(client, garbage) == "malformed"
    assert agent.ask("agent.ping").kind == "result"


def test_a_client_that_leaves_in_the_middle_of_a_line_does_no_harm(agent: RunningAgent) -> None:
    with agent.connect() as client:
        client.send(b'{"version":1')
    assert agent.ask("agent.ping").kind == "result"


@pytest.mark.parametrize(
    ("way", "code", "message"),
    [
        ("failed", "failed", "the disk said no"),
        ("crash", "internal", "internal error"),
        ("large", "internal", "too large to be told"),
        ("exit", "interrupted", "died"),
    ],
)
def test_a_failure_is_told_and_journalled(agent: RunningAgent, way: str, code: str, message: str) -> None:
    identity = new_id()
    answer = agent.ask("sample.fail", {"way": way}, id=identity)
    assert (answer.kind, answer.body["code"]) == ("error", code)
    assert message in answer.body["message"]
    assert "secret" not in json.dumps(answer.body)
    entry = agent.entry(identity)
    assert entry is not None
    assert entry.state == ("INTERRUPTED" if way == "exit" else "FAILED")
    assert entry.outcome is not None
    assert entry.outcome.body == answer.body


def test_a_message_of_any_length_can_be_answered(agent: RunningAgent) -> None:
    body = agent.ask("sample.fail", {"way": "long message"}).body
    assert body["code"] == "failed"
    assert body["message"].endswith("x ... (cut)")


def test_event_data_that_is_too_large_is_left_out_by_name(agent: RunningAgent) -> None:
    with agent.connect() as client:
        answers = client.ask("sample.fail", {"way": "large event"})
    assert [answer.body for answer in answers if answer.kind == "event"] == [
        {"message": "large", "data": {"omitted": ["text"]}}
    ]
    assert answers[-1].kind == "result"


def test_the_log_has_one_line_a_request_without_arguments_and_keys(agent: RunningAgent) -> None:
    identity = new_id()
    agent.ask("sample.fail", {"way": "failed"}, id=identity)
    assert agent.log.read_text().splitlines() == [f"sample.fail {identity} failed"]


def test_the_journal_is_told_by_job(agent: RunningAgent) -> None:
    identity = new_id()
    agent.ask("sample.work", {"site_id": 7}, id=identity, lock="exclusive")
    agent.ask("sample.work", {"site_id": 7}, lock="exclusive")
    body = agent.ask("agent.read_journal", {"job": identity.partition(":")[0]}).body
    (entry,) = body["entries"]
    assert (entry["id"], entry["action"], entry["state"]) == (identity, "sample.work", "SUCCEEDED")
    assert entry["outcome"] == {"kind": "result", "body": {"site_id": 7}}
    assert entry["started_at"] <= entry["ended_at"]
    assert body["truncated"] is False
