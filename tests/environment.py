"""A pytest plugin that gives each test process an installation of its own before settings are read."""

import os
import secrets
import shutil
import tempfile
from pathlib import Path

import pytest

STATE = Path(tempfile.mkdtemp(prefix="chp-tests-"))
STATE.chmod(0o755)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


_write(STATE / "keys" / "secret.key", secrets.token_urlsafe(48))
_write(STATE / "keys" / "audit.key", f"audit-1 {secrets.token_hex(32)}\n")
_write(STATE / "keys" / "agents" / "none.key", secrets.token_urlsafe(48))
os.environ.pop("CHP_CONFIG", None)
os.environ.update(
    CHP_STATE_DIR=str(STATE),
    CHP_HTTPS="0",
    CHP_ALLOW_TEST_DOMAINS="1",
    DJANGO_SETTINGS_MODULE=os.environ.get("DJANGO_SETTINGS_MODULE", "chp_site.settings"),
    CHP_ALLOWED_HOSTS="localhost,127.0.0.1,testserver",
)


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(STATE, ignore_errors=True)
