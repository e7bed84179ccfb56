"""One request id is one execution, whatever is sent again and whenever."""

from dataclasses import replace

from agent.protocol import sign
from tests.agent.core.running import KEY, RunningAgent, make_request, new_id

WORK = {"site_id": 7}


def test_the_same_request_id_executes_once_and_gives_the_first_outcome(agent: RunningAgent) -> None:
    identity = new_id()
    first = agent.ask("sample.work", WORK, id=identity, lock="exclusive")
    second = agent.ask("sample.work", WORK, id=identity, lock="exclusive")
    assert (second.kind, second.body) == (first.kind, first.body) == ("result", {"site_id": 7})
    assert agent.executed() == [identity]


def test_the_first_outcome_is_given_after_a_restart_and_for_failures_too(agent: RunningAgent) -> None:
    identity = new_id()
    first = agent.ask("sample.fail", {"way": "failed"}, id=identity)
    assert agent.stop() == 0
    agent.start()
    assert agent.ask("sample.fail", {"way": "failed"}, id=identity).body == first.body


def test_the_same_id_with_other_arguments_or_action_is_refused(agent: RunningAgent) -> None:
    identity = new_id()
    agent.ask("sample.work", WORK, id=identity, lock="exclusive")
    other_arguments = agent.ask("sample.work", {"site_id": 8}, id=identity, lock="exclusive")
    other_action = agent.ask("sample.look", WORK, id=identity, lock="shared")
    assert (other_arguments.body["code"], other_action.body["code"]) == ("id_reused", "id_reused")
    assert agent.executed() == [identity]


def test_the_same_id_while_it_runs_is_told_so(agent: RunningAgent) -> None:
    with agent.connect() as client:
        request = client.begin("sample.look", {"site_id": 7, "milliseconds": 800}, lock="shared")
        again = agent.ask("sample.look", request.arguments, id=request.id, lock="shared")
        assert (again.body["code"], again.body["retryable"]) == ("still_running", True)
        assert list(client.answers(request, sequence=1))[-1].kind == "result"
    assert agent.executed() == [request.id]


def test_many_at_once_with_one_id_execute_once(agent: RunningAgent) -> None:
    identity = new_id()
    requests = [make_request("sample.look", {"site_id": 7}, id=identity, lock="shared") for _ in range(8)]
    clients = [agent.connect() for _ in requests]
    for client, request in zip(clients, requests, strict=True):
        client.send(sign(request, KEY))
    finals = [list(client.answers(request))[-1] for client, request in zip(clients, requests, strict=True)]
    for client in clients:
        client.close()
    assert agent.executed() == [identity]
    assert {final.body.get("code", "result") for final in finals} <= {"result", "still_running"}
    assert any(final.kind == "result" for final in finals)


def test_an_outcome_is_answered_even_if_the_site_is_busy_now(agent: RunningAgent) -> None:
    identity = new_id()
    agent.ask("sample.work", WORK, id=identity, lock="exclusive")
    with agent.connect() as client:
        client.begin("sample.work", {"site_id": 7, "milliseconds": 5000}, lock="exclusive")
        assert agent.ask("sample.work", WORK, id=identity, lock="exclusive").kind == "result"


def test_a_refused_attempt_leaves_the_id_free(agent: RunningAgent) -> None:
    identity = new_id()
    request = make_request("sample.work", WORK, id=identity, lock="exclusive")
    with agent.connect() as holder:
        holder.ask("sample.work", WORK, lock="exclusive")
        with agent.connect() as client:
            assert client.exchange(request)[-1].body["code"] == "site_busy"
    with agent.connect() as client:
        fresh = replace(request, nonce="0" * 32)
        assert client.exchange(fresh)[-1].kind == "result"
