"""What django-q2 triggers: by its own scheduler, from rows that the code keeps."""

from datetime import timedelta

import pytest
from django_q.brokers import get_broker
from django_q.models import OrmQ, Schedule
from django_q.scheduler import scheduler

from audit.anchor import last_anchor
from audit.clock import database_now
from chp_site.evaluations import EVALUATIONS
from chp_site.schedules import sync
from jobs.models import Job
from jobs.periodic import look_after_jobs
from jobs.states import Status
from tests.cast import Cast
from tests.jobs.samples import claimed

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_table_is_made_equal_to_the_code() -> None:
    Schedule.objects.create(name="left over", func="os.getcwd", schedule_type=Schedule.MINUTES)
    sync()
    sync()
    assert set(Schedule.objects.values_list("name", flat=True)) == {one.name for one in EVALUATIONS}


def test_django_q2_queues_the_evaluation_when_it_is_due() -> None:
    sync()
    Schedule.objects.update(next_run=database_now() - timedelta(minutes=1))
    scheduler(broker=get_broker())
    assert OrmQ.objects.count() == len(EVALUATIONS)


@pytest.mark.parametrize(
    "row",
    [
        {"func": "os.system", "args": "'touch /nonexistent',"},
        {"func": "jobs.periodic.look_after_jobs", "hook": "os.system"},
        {"func": "jobs.periodic.look_after_jobs", "args": "1,"},
    ],
)
def test_a_row_that_somebody_wrote_into_the_table_comes_to_nothing(row: dict[str, str]) -> None:
    """The attacker modelled can write the database, and must not run code by that."""
    Schedule.objects.create(
        name="planted",
        schedule_type=Schedule.MINUTES,
        next_run=database_now() - timedelta(minutes=1),
        **row,
    )
    scheduler(broker=get_broker())
    assert not OrmQ.objects.exists()


def test_lost_work_is_rescued_and_the_trail_anchored_while_no_worker_lives(cast: Cast) -> None:
    job = claimed(cast.site, "SAMPLE_CHANGE")
    Job.objects.update(heartbeat_at=database_now() - timedelta(hours=1))
    assert look_after_jobs() == "1 jobs rescued"
    job.refresh_from_db()
    assert job.status == Status.ORPHANED
    anchor = last_anchor()
    assert anchor is not None and anchor.sequence > 0
