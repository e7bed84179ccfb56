import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.actions.ground import MEMORY, Ground, policy_in, remove
from tests.agent.actions.web import web_server
from tests.services.availability import missing
from tests.services.mariadb import mariadb_server  # noqa: F401 - a fixture


@pytest.fixture(autouse=True)
def _as_root() -> None:
    if os.geteuid() != 0:
        missing("root", "these tests give files to owners and take their place")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that the sites' owners may enter; in memory where that is possible, for its syncs."""
    made = Path(tempfile.mkdtemp(prefix="chp-actions-", dir=MEMORY if MEMORY.is_dir() else None))
    made.chmod(0o755)
    yield made
    remove(made)


@pytest.fixture(scope="session")
def idle_web_server() -> Iterator[str]:
    """Give the address of a web server that has no sites: it answers, and that is all most tests need."""
    folder = Path(tempfile.mkdtemp(prefix="chp-idle-web-"))
    folder.chmod(0o755)
    with web_server(folder) as (address, _):
        yield address
    remove(folder)


@pytest.fixture
def ground(folder: Path, idle_web_server: str) -> Ground:
    """Give a server's folders without any site."""
    return Ground(policy_in(folder, idle_web_server))


@pytest.fixture
def ground_on_disk(idle_web_server: str) -> Iterator[Ground]:
    """Give a server's folders on the disk: a file system in memory may have no attributes."""
    made = Path(tempfile.mkdtemp(prefix="chp-actions-"))
    made.chmod(0o755)
    yield Ground(policy_in(made, idle_web_server))
    remove(made)


@pytest.fixture
def serving(folder: Path) -> Iterator[Ground]:
    """Give a server's folders with a web server of their own."""
    config = folder / "web"
    with web_server(config) as (address, _):
        yield Ground(policy_in(folder, address))
