"""Small builders for the tests of the trail."""

import os
import subprocess
import sys
from pathlib import Path

from django.conf import settings as django_settings
from django.db import transaction

from audit import trail
from audit.actions import Action
from audit.models import AuditEntry


def entry(**changed: object) -> trail.Entry:
    """Give an entry worth recording."""
    values = {"action": Action.JOB_ENQUEUED, "actor": "alice (panel)", "actor_kind": "CUSTOMER"}
    return trail.Entry(**{**values, **changed})


def write(count: int, **changed: object) -> list[AuditEntry]:
    """Record entries in one transaction of their own."""
    with transaction.atomic():
        return trail.record(*[entry(target=f"JOB-{number:06}", **changed) for number in range(1, count + 1)])


def manage(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a management command on a SQLite database of its own in that folder."""
    places = {
        "CHP_STATE_DIR": str(folder),
        "CHP_AUDIT_KEY_FILE": str(folder / "audit.key"),
        "CHP_AUDIT_ANCHOR_FILE": str(folder / "anchors" / "audit.jsonl"),
        "CHP_SECRET_KEY_FILE": str(folder / "secret.key"),
        "CHP_DATABASE_URL": f"sqlite:///{folder}/other.sqlite3",
        "DJANGO_SETTINGS_MODULE": "chp_site.settings",
    }
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=django_settings.BASE_DIR,
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
