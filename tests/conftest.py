import os
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.db import connection

from tests.cast import cast  # noqa: F401
from tests.environment import STATE
from tests.installation import installation  # noqa: F401
from tests.processes import start_worker  # noqa: F401


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    if django_settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        django_settings.DATABASES["default"]["TEST"]["NAME"] = str(STATE / "test.sqlite3")
        connection.settings_dict["TEST"]["NAME"] = str(STATE / "test.sqlite3")


@pytest.fixture(autouse=True)
def _no_anchor_of_another_test() -> None:
    # The anchor file outlives the rows of a test, as it should outlive a database that is put back.
    Path(django_settings.CHP_AUDIT_ANCHOR_FILE).unlink(missing_ok=True)


@pytest.fixture
def process_environment(transactional_db):
    s = connection.settings_dict
    url = f"sqlite:///{s['NAME']}" if connection.vendor == "sqlite" else f"postgres://{s['USER']}@{s['HOST']}:{s['PORT']}/{s['NAME']}"
    return {**os.environ, "CHP_DATABASE_URL": url, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
