"""How the panel's database is reached, read by a process of its own."""

import json
import subprocess
import sys

import pytest

READ = """
import json
from django.conf import settings
print(json.dumps(settings.DATABASES["default"]["OPTIONS"]))
"""
WHERE = "postgres://chp@db.example:5432/chp"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", {"connect_timeout": 10, "tcp_user_timeout": 30_000}),
        (
            "?tcp_user_timeout=5000&sslmode=require",
            {"connect_timeout": 10, "tcp_user_timeout": "5000", "sslmode": "require"},
        ),
    ],
)
def test_a_postgresql_that_has_vanished_is_not_waited_for_unless_the_address_says_so(
    process_environment: dict[str, str], query: str, expected: dict[str, object]
) -> None:
    """The defaults of the network would have a worker hang for a quarter of an hour."""
    environment = process_environment | {
        "CHP_DATABASE_URL": WHERE + query,
        "DJANGO_SETTINGS_MODULE": "chp_site.settings",
    }
    told = subprocess.run([sys.executable, "-c", READ], env=environment, check=True, capture_output=True)
    options = json.loads(told.stdout)
    assert {name: str(value) for name, value in options.items()} == {
        name: str(value) for name, value in expected.items()
    }
