"""Fixtures that every part of the suite uses."""

import os
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from hypothesis import settings as hypothesis_settings

from tests.cast import cast
from tests.environment import STATE
from tests.installation import installation
from tests.processes import ROOT, start_worker

__all__ = ["cast", "installation", "start_worker"]

# The suite says the same twice in a row; looking for new examples is another run's business.
hypothesis_settings.register_profile("suite", derandomize=True, deadline=None)
hypothesis_settings.load_profile("suite")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Keep the test database in a file on SQLite, so that other processes can open it."""
    if connection.vendor == "sqlite":
        connection.settings_dict["TEST"]["NAME"] = str(STATE / "test.sqlite3")


@pytest.fixture(autouse=True)
def _no_anchor_of_another_test() -> None:
    # The anchor file outlives the rows of a test, as it should outlive a database that is put back.
    Path(settings.CHP_AUDIT_ANCHOR_FILE).unlink(missing_ok=True)


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """Give the address of this process's test database, for processes that the test starts."""
    values = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{values['NAME']}"
    return f"postgres://{values['USER']}@{values['HOST']}:{values['PORT']}/{values['NAME']}"


@pytest.fixture
def process_environment(database_url: str) -> dict[str, str]:
    """Give the environment in which the product's own processes work on the test's database."""
    return {**os.environ, "CHP_DATABASE_URL": database_url, "PYTHONPATH": str(ROOT)}
