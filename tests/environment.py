"""A pytest plugin: gives each test process an installation of its own before Django's settings are read.

`CHP_TEST_DATABASE` chooses the panel's database: sqlite (default) or postgresql, a private server that the
controlling process starts once and its parallel workers share, each with a database of its own.
"""

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.services.postgresql import PostgreSQL

STATE = Path(tempfile.mkdtemp(prefix="chp-tests-"))
STATE.chmod(0o755)
IS_CONTROLLER = "PYTEST_XDIST_WORKER" not in os.environ
DATABASE = os.environ.get("CHP_TEST_DATABASE", "sqlite")
_server: PostgreSQL | None = None


def _write_key(name: str, text: str) -> None:
    path = STATE / "keys" / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


def _database_url() -> str:
    global _server  # noqa: PLW0603 - one server per session, ended by the hook below
    if DATABASE == "sqlite":
        return f"sqlite:///{STATE}/panel.sqlite3"
    if DATABASE != "postgresql":
        sys.exit(f"CHP_TEST_DATABASE is {DATABASE!r}; it must be sqlite or postgresql.")
    if IS_CONTROLLER:
        _server = PostgreSQL()
        os.environ["CHP_TEST_POSTGRESQL_URL"] = _server.url
    return os.environ["CHP_TEST_POSTGRESQL_URL"]


(STATE / "static").mkdir()
_write_key("secret.key", secrets.token_urlsafe(48))
_write_key("audit.key", f"audit-1 {secrets.token_hex(32)}\n")
_write_key("agents/none.key", secrets.token_urlsafe(48))
os.environ.pop("CHP_CONFIG", None)
os.environ.update(
    CHP_STATE_DIR=str(STATE),
    CHP_HTTPS="0",
    CHP_ALLOW_TEST_DOMAINS="1",
    CHP_ALLOWED_HOSTS="localhost,127.0.0.1,testserver",
    CHP_DATABASE_URL=_database_url(),
    DJANGO_SETTINGS_MODULE="chp_site.settings",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let CHP_REQUIRE_SERVICES=1 make a failure of every skip, whatever the reason for it is."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CHP_REQUIRE_SERVICES") == "1":
        report.outcome = "failed"
        report.longrepr = f"skipped, though CHP_REQUIRE_SERVICES=1: {report.longrepr}"
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    """Take away what was made."""
    if _server is not None:
        _server.stop()
    shutil.rmtree(STATE, ignore_errors=True)
