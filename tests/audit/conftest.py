"""Each test has a key file and an anchor file of its own."""

import secrets
from pathlib import Path

import pytest

from audit import keys
from tests.audit.builders import manage


@pytest.fixture(autouse=True)
def trail_files(settings: object, tmp_path: Path) -> Path:
    """Give the folder with the key file, and the place where an anchor file will be."""
    settings.CHP_AUDIT_KEY_FILE = tmp_path / "audit.key"
    settings.CHP_AUDIT_ANCHOR_FILE = tmp_path / "anchors" / "audit.jsonl"
    keys.create(tmp_path / "audit.key")
    return tmp_path


@pytest.fixture(
    params=[
        pytest.param(None, id="in a test case's transaction", marks=pytest.mark.django_db),
        pytest.param(None, id="with real commits", marks=pytest.mark.django_db(transaction=True)),
    ]
)
def each_database_mode() -> None:
    """Run the test inside the transaction that pytest-django wraps around tests, and without it."""


@pytest.fixture
def other_database(trail_files: Path) -> Path:
    """Give the folder of an empty SQLite database with the same key file."""
    secret = trail_files / "secret.key"
    secret.write_text(secrets.token_urlsafe(50))
    secret.chmod(0o600)
    assert manage(trail_files, "migrate", "audit", "--skip-checks").returncode == 0
    return trail_files
