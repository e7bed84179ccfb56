import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.actions.table import ACTIONS
from agent.declarations.table import DECLARATIONS
from agent.dispatch import Agent, prepare
from agent.exceptions import NotPermitted
from agent.policy import load_policy
from agent.system import SYSTEM
from tests.agent.core.running import make_request, write_policy
from tests.agent.core.samples import SAMPLE_ACTIONS, SAMPLE_DECLARATIONS


@pytest.fixture
def without_root() -> Iterator[None]:
    """The rest of the test runs as an ordinary user."""
    previous = os.geteuid()
    os.seteuid(23456 if previous == 0 else previous)
    yield
    os.seteuid(previous)


def sample_agent(folder: Path) -> Agent:
    return Agent(load_policy(write_policy(folder)), SAMPLE_ACTIONS, SAMPLE_DECLARATIONS)


def test_without_root_an_action_that_needs_it_is_refused_by_name(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    agent = sample_agent(folder)
    request.getfixturevalue("without_root")
    with pytest.raises(NotPermitted, match=r"sample\.need_root needs root"):
        prepare(make_request("sample.need_root"), agent)


def test_the_digest_is_over_action_and_arguments_only(folder: Path) -> None:
    agent = sample_agent(folder)
    first, again, other = (
        prepare(make_request("sample.look", {"site_id": site_id}, lock=lock), agent).claim
        for site_id, lock in ((7, "shared"), (7, "mutating"), (8, "shared"))
    )
    assert first.digest == again.digest != other.digest


def test_every_declared_action_can_be_done_and_every_action_is_declared() -> None:
    assert set(DECLARATIONS) == set(ACTIONS) | set(SYSTEM)
    assert not set(ACTIONS) & set(SYSTEM)
