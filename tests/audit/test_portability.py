"""A trail keeps verifying when it moves between databases: what is signed is exactly what is stored."""

import json
from pathlib import Path

import pytest
from django.core.management import call_command

from audit.models import AuditEntry
from audit.verification import verify_trail
from tests.audit.builders import manage, write
from tests.vectors import HOSTILE_TEXTS

pytestmark = pytest.mark.django_db

# Written once, on SQLite, with this key. If it no longer verifies, no older installation's trail does.
GOLDEN = Path(__file__).with_name("golden_trail.json")
GOLDEN_KEY = f"golden-1 {bytes(range(40, 72)).hex()}\n"


def test_trail_of_an_older_installation_on_sqlite_verifies_here(trail_files: Path) -> None:
    (trail_files / "audit.key").write_text(GOLDEN_KEY)
    call_command("loaddata", str(GOLDEN), verbosity=0)
    assert verify_trail().verdict.problem is None
    assert verify_trail().verdict.entries == len(HOSTILE_TEXTS)
    write(2)
    assert verify_trail().verdict.entries == len(HOSTILE_TEXTS) + 2


def test_golden_trail_that_is_altered_does_not_verify(trail_files: Path) -> None:
    (trail_files / "audit.key").write_text(GOLDEN_KEY)
    call_command("loaddata", str(GOLDEN), verbosity=0)
    AuditEntry.objects.filter(pk=3).update(tenant="su\u0308ß")
    problem = verify_trail().verdict.problem
    assert problem is not None
    assert problem.sequence == 3


def test_trail_dumped_here_verifies_on_sqlite(other_database: Path) -> None:
    """Queue J2."""
    for name, text in HOSTILE_TEXTS.items():
        write(1, tenant=name, reason=text, data={text: [1 / 3, text]})
    dump = other_database / "dump.json"
    call_command("dumpdata", "audit", output=str(dump), verbosity=0)
    loaded = manage(other_database, "loaddata", "--skip-checks", str(dump))
    assert loaded.returncode == 0, loaded.stderr
    verified = manage(other_database, "hosting_audit", "verify", "--json")
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)["last_mac"] == verify_trail().verdict.last_mac
