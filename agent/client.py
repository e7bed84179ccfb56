"""Asking the running agent over its own socket, as `hosting-agent ping` does."""

import socket
import uuid
from collections.abc import Mapping
from typing import Any

from agent.exceptions import ServerRefused
from agent.policy import Policy
from agent.protocol import new_request, parse_answer, request_id, sign

WAIT_SECONDS = 10


def ask(policy: Policy, action: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Send one request, signed with the policy's first key, and give the result, or raise an AgentError."""
    key_id, key = next(iter(policy.keys.items()))
    request = new_request(
        key_id=key_id,
        server=policy.server,
        id=request_id(uuid.uuid4(), 0, action.rpartition(".")[2]),
        action=action,
        arguments=arguments,
    )
    answer = parse_answer(_exchange(policy, sign(request, key)), request, key, 0)
    if answer.kind != "result":
        raise ServerRefused(f"{answer.body.get('code')}: {answer.body.get('message')}")
    return answer.body


def _exchange(policy: Policy, line: bytes) -> bytes:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(WAIT_SECONDS)
            connection.connect(str(policy.socket))
            connection.sendall(line)
            with connection.makefile("rb") as stream:
                answer = stream.readline()
    except OSError as error:
        raise ServerRefused(f"no agent answers on {policy.socket}: {error.strerror or error}") from error
    if not answer.endswith(b"\n"):
        raise ServerRefused(f"the agent on {policy.socket} closed the connection without an answer")
    return answer
