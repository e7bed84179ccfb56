"""From a proven request to work that may be done: the whitelist, the arguments, the rights and the lock."""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agent.declarations import schema
from agent.declarations.schema import Declaration, Lock
from agent.exceptions import ActionNotAllowed, InvalidArguments, NotPermitted, UnknownAction
from agent.journal import Claim, Journal
from agent.nonces import Nonces
from agent.policy import Policy
from agent.protocol import Request, canonical_bytes

# Each action takes its own declaration; the table cannot say that more narrowly than Any.
Action = Callable[[Any, Any], dict[str, object]]


@dataclass(frozen=True)
class Agent:
    """What an agent consists of: its policy, and the tables of what it knows and can do."""

    policy: Policy
    actions: Mapping[str, Action] = field(repr=False)
    declarations: Mapping[str, type[Declaration]] = field(repr=False)

    @cached_property
    def journal(self) -> Journal:
        """The journal of this agent."""
        return Journal(self.policy.state_dir)

    @cached_property
    def nonces(self) -> Nonces:
        """The memory of requests of this agent."""
        return Nonces(self.policy.state_dir)


@dataclass(frozen=True)
class Work:
    """A request that passed every check: what is to be done, by which declaration, under which lock."""

    claim: Claim
    declaration: type[Declaration]
    arguments: Declaration
    lock: Lock
    deadline_seconds: int

    @property
    def site_id(self) -> int | None:
        """The site that the work is on."""
        return self.claim.site_id


def prepare(request: Request, agent: Agent) -> Work:
    """Judge a request. Raises UnknownAction, ActionNotAllowed, NotPermitted or InvalidArguments."""
    declaration = _declaration(request.action, agent)
    arguments = schema.parse(declaration, request.arguments)
    site_id = getattr(arguments, "site_id", None)
    return Work(
        claim=Claim(request.id, request.action, _digest(request), site_id),
        declaration=declaration,
        arguments=arguments,
        lock=_lock(request, declaration, site_id),
        deadline_seconds=request.deadline_seconds,
    )


def _declaration(action: str, agent: Agent) -> type[Declaration]:
    declaration = agent.declarations.get(action)
    if declaration is None:
        raise UnknownAction(f"there is no action {action}")
    if not agent.policy.allows(action):
        raise ActionNotAllowed(f"the policy of {agent.policy.server} does not allow {action}")
    if declaration.needs_root and os.geteuid() != 0:
        raise NotPermitted(f"{action} needs root, and this agent does not run as root")
    return declaration


def _lock(request: Request, declaration: type[Declaration], site_id: int | None) -> Lock:
    lock = Lock(request.lock)
    if not lock.covers(declaration.lock):
        raise InvalidArguments(
            f"lock: {request.action} needs {declaration.lock}, the request has only {lock}"
        )
    if lock is not Lock.NONE and site_id is None:
        raise InvalidArguments(f"lock: {request.action} is on no site, ask for none")
    return lock


def _digest(request: Request) -> str:
    asked = canonical_bytes({"action": request.action, "arguments": request.arguments})
    return hashlib.sha256(asked).hexdigest()
