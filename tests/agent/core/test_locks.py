"""The site's lock between connections."""

from typing import Any

import pytest

from tests.agent.core.running import RunningAgent, wait_until

LONG = {"site_id": 7, "milliseconds": 5000}
SHORT = {"site_id": 7}


def outcome(agent: RunningAgent, action: str, lock: str, arguments: dict[str, Any] | None = None) -> str:
    answer = agent.ask(action, arguments or SHORT, lock=lock)
    return str(answer.body.get("code", answer.kind))


def test_two_connections_do_not_work_on_one_site(agent: RunningAgent) -> None:
    with agent.connect() as client:
        client.begin("sample.work", LONG, lock="exclusive")
        busy = agent.ask("sample.work", SHORT, lock="exclusive")
        assert (busy.body["code"], busy.body["retryable"]) == ("site_busy", True)
        assert outcome(agent, "sample.work", "exclusive", {"site_id": 8}) == "result"


def test_a_reader_stands_beside_exclusive_work(agent: RunningAgent) -> None:
    with agent.connect() as client:
        client.begin("sample.work", LONG, lock="exclusive")
        assert outcome(agent, "sample.look", "shared") == "result"


def test_a_reader_waits_for_mutating_work_and_mutating_work_for_a_reader(agent: RunningAgent) -> None:
    with agent.connect() as client:
        client.begin("sample.change", {"site_id": 7, "milliseconds": 300}, lock="mutating")
        assert outcome(agent, "sample.look", "shared") == "site_busy"
    wait_until(lambda: outcome(agent, "sample.look", "shared") == "result")
    with agent.connect() as client:
        client.begin("sample.look", LONG, lock="shared")
        assert outcome(agent, "sample.change", "mutating") == "site_busy"


def test_the_lock_is_kept_between_two_steps_of_a_connection(agent: RunningAgent) -> None:
    with agent.connect() as client:
        assert client.ask("sample.work", SHORT, lock="exclusive")[-1].kind == "result"
        assert outcome(agent, "sample.work", "exclusive") == "site_busy"
        assert client.ask("sample.work", SHORT, lock="exclusive")[-1].kind == "result"
    wait_until(lambda: outcome(agent, "sample.work", "exclusive") == "result")


def test_a_mutating_attempt_may_take_smaller_steps(agent: RunningAgent) -> None:
    with agent.connect() as client:
        for action, lock in (
            ("sample.change", "mutating"),
            ("sample.work", "exclusive"),
            ("sample.look", "shared"),
        ):
            assert client.ask(action, SHORT, lock=lock)[-1].kind == "result"


@pytest.mark.parametrize(("site_id", "lock"), [(8, "exclusive"), (7, "mutating")])
def test_a_connection_keeps_to_its_site_and_its_lock(agent: RunningAgent, site_id: int, lock: str) -> None:
    with agent.connect() as client:
        client.ask("sample.work", SHORT, lock="exclusive")
        answer = client.ask("sample.work", {"site_id": site_id}, lock=lock)[-1]
    assert answer.body["code"] == "invalid_arguments"
    assert "exclusive on site 7" in answer.body["message"]


def test_a_connection_that_was_refused_a_lock_may_ask_again(agent: RunningAgent) -> None:
    with agent.connect() as waiting:
        with agent.connect() as holder:
            holder.ask("sample.work", SHORT, lock="exclusive")
            assert waiting.ask("sample.work", SHORT, lock="exclusive")[-1].body["code"] == "site_busy"
        wait_until(lambda: waiting.ask("sample.work", SHORT, lock="exclusive")[-1].kind == "result")
