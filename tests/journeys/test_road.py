"""The whole road with a real agent, real files and real databases, on both databases of the panel."""

import json
import random
import sqlite3
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django import Settings

from accounts.actor import operator
from audit.verification import verify_trail
from backups.models import Backup, Integrity, ScheduleType
from chp_site.demo import content, snapshot
from jobs import pipeline
from jobs.models import EventType, Job, JobEvent, JobPolicy, PlanState
from jobs.request import JobRequest
from jobs.states import ENDED, Status
from provisioning.ordering import Order, order_site
from sites.models import Site, SiteState
from tests.cast import Cast
from tests.installation import Installation
from tests.processes import StartWorker

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = operator("root")


@pytest.fixture
def start_real_worker(start_worker: StartWorker) -> StartWorker:
    """Start workers with the product's own operations."""

    def start(*arguments: str, **more: str):  # type: ignore[no-untyped-def]
        return start_worker(*arguments, DJANGO_SETTINGS_MODULE="chp_site.settings", **more)

    return start


@pytest.fixture
def site(cast: Cast, installation: Installation, start_real_worker: StartWorker) -> Site:
    """A provisioned site with a few files and a database, and a worker that runs."""
    JobPolicy.objects.create(job_type="BACKUP", retry_delays=[0, 0])
    start_real_worker()
    made, job = order_site(ROOT, Order(cast.customer, installation.server, "road.test"))
    assert ended(job).status == Status.SUCCESS, Job.objects.get(pk=job.pk).error_message
    home = installation.home(made.pk)
    (home / "htdocs" / "index.html").unlink()
    content.bakery(home)
    content.give_to_owner(home)
    made.refresh_from_db()
    return made


def ended(job: Job, seconds: float = 60) -> Job:
    """Wait for the end of a job, or for its need of a person."""
    until(lambda: Job.objects.get(pk=job.pk).status in (*ENDED, Status.ORPHANED), seconds)
    return Job.objects.get(pk=job.pk)


def until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something is so."""
    ends = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > ends:
            lines = [str(event) for event in JobEvent.objects.order_by("-pk")[:15]]
            raise AssertionError(f"not so within {seconds} s; last events: {lines}")
        time.sleep(0.02)


def asked(site: Site, operation: str, **payload: object) -> Job:
    """Ask for a job as the operator."""
    return pipeline.submit(ROOT, JobRequest(operation, site.pk, payload)).job


def backed_up(site: Site) -> Backup:
    """Have a backup made."""
    job = ended(asked(site, "BACKUP"))
    assert job.status == Status.SUCCESS, job.error_message
    return Backup.objects.get(code=(job.result or {})["backup"])


def served(site: Site) -> bytes:
    """Ask the site's server for its first page."""
    request = urllib.request.Request(f"http://{site.server.web_address}/", headers={"Host": site.domain})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return bytes(answer.read())


def damage(home: Path) -> None:
    """Change, delete and plant files, and spoil the database."""
    (home / "htdocs" / "index.html").write_text("defaced")
    (home / "htdocs" / "page-01.html").unlink()
    (home / "htdocs" / "shell.php").write_text("<?php")
    with sqlite3.connect(home / "data" / "orders.sqlite3") as connection:
        connection.execute("DELETE FROM orders WHERE id > 10")
    connection.close()
    content.give_to_owner(home)


def test_a_site_is_provisioned_and_served(site: Site, installation: Installation) -> None:
    assert site.state == SiteState.ACTIVE
    assert b"Nordlicht Bakery" in served(site)


def test_backed_up_verified_damaged_and_restored_to_the_byte(site: Site, installation: Installation) -> None:
    home = installation.home(site.pk)
    before = snapshot.of(home)
    backup = backed_up(site)
    assert (backup.integrity, backup.schedule_type) == (Integrity.VERIFIED, ScheduleType.MANUAL)
    assert ended(asked(site, "VERIFY", backup=backup.code, deep=True)).status == Status.SUCCESS
    damage(home)
    assert before.differences(snapshot.of(home))
    job = ended(asked(site, "RESTORE", backup=backup.code))
    assert job.status == Status.SUCCESS, job.error_message
    assert before.differences(snapshot.of(home)) == []
    assert b"Nordlicht Bakery" in served(site)
    assert job.plan is not None and job.plan.state == PlanState.USED
    safety = Backup.objects.get(schedule_type=ScheduleType.PRE_RESTORE)
    assert safety.integrity == Integrity.VERIFIED
    assert verify_trail().verdict.problem is None


def test_a_restore_can_be_undone_by_its_safety_backup(site: Site, installation: Installation) -> None:
    home = installation.home(site.pk)
    backup = backed_up(site)
    damage(home)
    damaged = snapshot.of(home)
    ended(asked(site, "RESTORE", backup=backup.code))
    safety = Backup.objects.get(schedule_type=ScheduleType.PRE_RESTORE)
    assert ended(asked(site, "RESTORE", backup=safety.code)).status == Status.SUCCESS
    assert damaged.differences(snapshot.of(home)) == []


def test_a_spoiled_artifact_is_found_and_never_restored(site: Site, installation: Installation) -> None:
    """Rules 11 and 12: CORRUPTED is durable and no restore takes it."""
    backup = backed_up(site)
    (archive,) = Path(backup.path).glob("files.tar.*")
    with archive.open("r+b") as file:
        file.seek(archive.stat().st_size // 2)
        file.write(b"\0" * 64)
    job = ended(asked(site, "VERIFY", backup=backup.code))
    backup.refresh_from_db()
    assert (job.status, job.error_code, backup.integrity) == (Status.FAILED, "corrupted", Integrity.CORRUPTED)
    with pytest.raises(pipeline.Refused, match="only a verified one is restored"):
        asked(site, "RESTORE", backup=backup.code)


def test_an_artifact_spoiled_after_its_verification_leaves_the_site_as_it_is(
    site: Site, installation: Installation
) -> None:
    backup = backed_up(site)
    home = installation.home(site.pk)
    now = snapshot.of(home)
    (archive,) = Path(backup.path).glob("files.tar.*")
    archive.write_bytes(archive.read_bytes()[:-100])
    job = ended(asked(site, "RESTORE", backup=backup.code))
    assert job.status == Status.FAILED
    assert now.differences(snapshot.of(home)) == []


def test_a_backup_of_a_busy_database_loses_no_committed_row(site: Site, installation: Installation) -> None:
    """Backup C14: 1,000 rows that stand in the write-ahead log only."""
    path = installation.home(site.pk) / "data" / "orders.sqlite3"
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA wal_autocheckpoint=0")
    writer.executemany("INSERT INTO orders (title) VALUES (?)", [("late",)] * 1000)
    writer.commit()
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO orders (title) VALUES ('uncommitted')")
    backup = backed_up(site)
    writer.rollback()
    writer.close()
    (database,) = backup.databases
    assert database["rows"] == {"orders": 1500}


def _slow(home: Path) -> None:
    """Give the site so much that a backup of it takes some seconds."""
    folder = home / "htdocs" / "large"
    folder.mkdir()
    chance = random.Random(7)
    for number in range(20):
        (folder / f"{number}.bin").write_bytes(chance.randbytes(10_000_000))
    content.give_to_owner(home)


def _partial(installation: Installation, site: Site) -> bool:
    return any(installation.store(site.pk).glob(".partial-*"))


def _staged(installation: Installation, site: Site) -> bool:
    """Whether a restore has begun to unpack beside the site."""
    return any((installation.places.state / "sites").glob(f".staging-{site.pk}-*/htdocs/*"))


def test_kill_9_of_the_worker_in_mid_backup(
    cast: Cast, installation: Installation, start_real_worker: StartWorker, settings: Settings
) -> None:
    """The agent finishes for a dead worker; the new one finds that in its journal and goes on from there."""
    first = start_real_worker("--name", "first")
    site, job = order_site(ROOT, Order(cast.customer, installation.server, "road.test"))
    ended(job)
    _slow(installation.home(site.pk))
    job = asked(site, "BACKUP")
    until(lambda: _partial(installation, site))
    first.kill()
    assert not Backup.objects.filter(integrity=Integrity.VERIFIED).exists()
    start_real_worker("--name", "second")
    job = ended(job, 120)
    assert job.status == Status.SUCCESS, job.error_message
    assert JobEvent.objects.filter(job=job, event_type=EventType.HEARTBEAT_LOST).exists()
    verified = Backup.objects.filter(integrity=Integrity.VERIFIED)
    assert [backup.code for backup in verified] == [(job.result or {})["backup"]]
    assert not _partial(installation, site)
    assert verify_trail().verdict.problem is None


def test_kill_9_of_the_agent_in_mid_backup(
    cast: Cast, installation: Installation, start_real_worker: StartWorker
) -> None:
    """Nothing half-made counts; the job is repeated once the agent is back, and says so."""
    start_real_worker()
    site, job = order_site(ROOT, Order(cast.customer, installation.server, "road.test"))
    ended(job)
    _slow(installation.home(site.pk))
    job = asked(site, "BACKUP")
    until(lambda: _partial(installation, site))
    installation.kill_agent()
    assert not Backup.objects.filter(integrity=Integrity.VERIFIED).exists()
    installation.start_agent()
    job = ended(job, 120)
    assert job.status == Status.SUCCESS, job.error_message
    assert job.attempt == 2
    made = {backup.integrity for backup in Backup.objects.filter(job=job)}
    assert made == {Integrity.FAILED, Integrity.VERIFIED}
    assert not _partial(installation, site)
    artifacts = {path.name for path in installation.store(site.pk).iterdir()}
    assert artifacts == {(job.result or {})["backup"]}


def test_kill_9_of_the_agent_in_mid_restore_leaves_it_to_a_person(
    site: Site, installation: Installation
) -> None:
    """Rules 6 and 7: a lost restore is ORPHANED, its site stays closed, and it says so."""
    home = installation.home(site.pk)
    _slow(home)
    backup = backed_up(site)
    damage(home)
    job = asked(site, "RESTORE", backup=backup.code)
    until(lambda: _staged(installation, site))
    installation.kill_agent()
    installation.start_agent()
    job = ended(job, 120)
    assert (job.status, job.error_code) == (Status.ORPHANED, "work_lost")
    waiting = asked(site, "BACKUP")
    time.sleep(1)
    assert Job.objects.get(pk=waiting.pk).status == Status.QUEUED


def test_an_agent_that_is_down_costs_no_attempt(site: Site, installation: Installation) -> None:
    installation.kill_agent()
    job = asked(site, "BACKUP")
    until(lambda: JobEvent.objects.filter(job=job, event_type=EventType.RETRY).exists())
    assert Job.objects.get(pk=job.pk).error_code == "not_started"
    installation.start_agent()
    job = ended(job)
    assert (job.status, job.attempt) == (Status.SUCCESS, 1)


def test_cancelling_a_running_backup_stops_the_agents_work_and_leaves_nothing(
    site: Site, installation: Installation
) -> None:
    _slow(installation.home(site.pk))
    job = asked(site, "BACKUP")
    until(lambda: _partial(installation, site))
    pipeline.cancel(ROOT, job.pk, "not needed")
    job = ended(job)
    assert job.status == Status.CANCELLED
    assert Backup.objects.get(job=job).integrity == Integrity.FAILED
    until(lambda: not _partial(installation, site))


def test_an_unreadable_file_makes_the_backup_partial_by_name_and_it_does_not_count(
    site: Site, installation: Installation
) -> None:
    """Backup A4. Reading as the site's user needs the agent to be root."""
    hidden = installation.home(site.pk) / "htdocs" / "hidden.txt"
    hidden.write_text("x")
    hidden.chmod(0o000)
    job = ended(asked(site, "BACKUP"))
    backup = Backup.objects.get(job=job)
    assert (job.status, job.error_code, backup.integrity) == (Status.FAILED, "partial", Integrity.PARTIAL)
    assert "hidden.txt" in job.error_message
    assert not backup.counts


def test_no_secret_stands_in_any_event_payload_result_or_entry(
    site: Site, installation: Installation
) -> None:
    """Rule 17: the agent's key, after a run of everything."""
    backup = backed_up(site)
    ended(asked(site, "RESTORE", backup=backup.code))
    key = (installation.places.state / "keys" / "agents" / f"{installation.server.key_id}.key").read_text()
    jobs = json.dumps(list(Job.objects.values("payload", "result", "error_message")), default=str)
    events = json.dumps(list(JobEvent.objects.values("message", "data")), default=str)
    assert key.strip() not in jobs + events + installation.log()
