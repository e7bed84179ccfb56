"""Rows of artifacts: codes, states, and what counts."""

from datetime import timedelta

import pytest
from django.db import transaction

from accounts.actor import actor_for
from audit.clock import database_now, override
from backups import artifacts
from backups.exceptions import BackupNotFound
from backups.models import CODE, Backup, Fate, Integrity, ScheduleType
from backups.queries import backup_visible_to, last_verified
from jobs.models import Job
from tests.cast import Cast
from tests.jobs.samples import submitted

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(cast: Cast) -> Job:
    return submitted(cast.site, "BACKUP")


def _begun(job: Job) -> Backup:
    with transaction.atomic():
        return artifacts.begin(job, ScheduleType.MANUAL)


def test_a_code_is_the_utc_second_with_a_suffix_where_it_is_taken(job: Job) -> None:
    with override(database_now().replace(2026, 8, 13, 17, 0, 1, 0)):
        codes = [_begun(job).code for _ in range(3)]
    assert codes == ["BK-20260813-170001", "BK-20260813-170001-1", "BK-20260813-170001-2"]
    assert all(CODE.fullmatch(code) for code in codes)


@pytest.mark.parametrize("integrity", Integrity.values)
@pytest.mark.parametrize("fate", Fate.values)
def test_only_a_verified_artifact_that_is_there_counts(job: Job, integrity: str, fate: str) -> None:
    """Rule 11."""
    backup = _begun(job)
    backup.integrity, backup.fate = Integrity(integrity), Fate(fate)
    backup.save()
    counts = integrity == Integrity.VERIFIED and fate != Fate.DELETED
    assert backup.counts == counts
    assert last_verified(backup.site) == (backup if counts else None)


def test_the_newest_goes_by_the_snapshot_not_by_its_proof(job: Job) -> None:
    old, new = _begun(job), _begun(job)
    now = database_now()
    Backup.objects.filter(pk=old.pk).update(created_at=now - timedelta(days=1))
    Backup.objects.filter(pk=new.pk).update(
        integrity=Integrity.VERIFIED, verified_at=now - timedelta(hours=1)
    )
    artifacts.mark_verified(Backup.objects.get(pk=old.pk))
    assert last_verified(old.site) == new


def test_a_partial_artifact_is_marked_as_soon_as_it_is_told(job: Job) -> None:
    backup = _begun(job)
    told = {
        "path": "/x",
        "size_bytes": 1,
        "files": 1,
        "databases": [],
        "manifest_sha256": "0" * 64,
        "skipped": ["a", "b"],
        "integrity": "PARTIAL",
    }
    artifacts.note_created(backup, told)
    backup.refresh_from_db()
    assert (backup.integrity, backup.error_message) == (Integrity.PARTIAL, "2 paths could not be read")


def test_what_an_attempt_left_unfinished_is_failed_and_nothing_else(job: Job) -> None:
    verified, unfinished = _begun(job), _begun(job)
    artifacts.mark_verified(verified)
    artifacts.fail_unfinished(job, "stopped")
    verified.refresh_from_db()
    unfinished.refresh_from_db()
    assert (verified.integrity, unfinished.integrity) == (Integrity.VERIFIED, Integrity.FAILED)


@pytest.mark.parametrize("code", ["BK-20260813-170001", "../../etc/passwd", "", "x" * 5000, "BK-1\n"])
def test_a_foreign_or_odd_code_is_as_good_as_missing(cast: Cast, job: Job, code: str) -> None:
    with override(database_now().replace(2026, 8, 13, 17, 0, 1, 0)):
        _begun(job)
    with pytest.raises(BackupNotFound):
        backup_visible_to(actor_for(cast.stranger, "api"), code)
