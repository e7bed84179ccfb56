import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agent.core.running import RunningAgent


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="agent-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture
def start_agent(folder: Path) -> Iterator[Callable[..., RunningAgent]]:
    """Start an agent with settings of the policy; everything it started ends with the test."""
    started: list[RunningAgent] = []

    def start(**settings: object) -> RunningAgent:
        started.append(RunningAgent(folder, **settings))
        return started[-1]

    yield start
    for agent in started:
        if agent.process.poll() is None:
            agent.kill_all()
        if agent.process.stdout:
            agent.process.stdout.close()


@pytest.fixture
def agent(start_agent: Callable[..., RunningAgent]) -> RunningAgent:
    """A running agent with the sample actions."""
    return start_agent()
