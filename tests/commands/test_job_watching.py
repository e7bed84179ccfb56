"""hosting-job watch: line by line until the job has ended or needs a person."""

from collections.abc import Callable

import pytest

from audit.clock import database_now
from jobs import events
from jobs.events import Line
from jobs.management import watching
from jobs.models import EventType, Job
from jobs.states import Status
from tests.cast import Cast
from tests.commands.running import run, run_lines
from tests.jobs.samples import moved, submitted
from tests.panel.samples import job_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have things happen one by one, each while the command sleeps; no real time passes."""

    def plan(*happenings: Callable[[], object]) -> None:
        left = iter(happenings)
        monkeypatch.setattr(watching.time, "sleep", lambda _: next(left)())

    return plan


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.SUCCESS, 0),
        (Status.RESOLVED, 0),
        (Status.FAILED, 1),
        (Status.CANCELLED, 1),
        (Status.ORPHANED, 1),
    ],
)
def test_what_is_over_is_told_at_once_and_the_exit_code_says_how(
    cast: Cast, status: Status, code: int
) -> None:
    job = job_in(status, cast.site)
    left, out, _ = run("hosting_job", "watch", job.code)
    assert left == code
    assert "CREATED" in out.splitlines()[0]
    assert out.splitlines()[-1].startswith(f"{job.code}: {status.label}")
    assert ("hosting-job resolve" in out) is (status == Status.ORPHANED)


def test_events_and_progress_are_followed_and_told_once(cast: Cast, meanwhile: Callable[..., None]) -> None:
    job = submitted(cast.site, "BACKUP")

    def progress(percent: int) -> Callable[[], object]:
        return lambda: Job.objects.update(progress_percent=percent, progress_step="archiving")

    meanwhile(
        lambda: moved(job, Status.RUNNING),
        progress(10),
        lambda: None,
        progress(20),
        lambda: events.append(job, [Line(EventType.CHECKPOINT, "dumped")], database_now()),
        lambda: moved(job, Status.SUCCESS),
    )
    code, told = run_lines("hosting_job", "watch", job.code)
    assert code == 0
    assert [line.get("percent") or line.get("event_type") or line["kind"] for line in told] == [
        *("CREATED", "waiting", "PROGRESS", 10, 20, "CHECKPOINT", "PROGRESS", "end")
    ]
    assert told[-1]["job"]["status"] == "SUCCESS"


def test_the_end_of_the_time_is_a_sentence_and_exit_code_1(cast: Cast) -> None:
    job = submitted(cast.site, "BACKUP")
    code, out, err = run("hosting_job", "watch", job.code, "--timeout", "0")
    assert code == 1
    assert "CREATED" in out
    assert err == f"{job.code} has not ended within 0 s; it goes on (queued).\n"
    code, told = run_lines("hosting_job", "watch", job.code, "--timeout", "0")
    assert (code, told[-1]["kind"]) == (1, "timeout")


def test_leaving_with_ctrl_c_leaves_the_job_alone(cast: Cast, meanwhile: Callable[..., None]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    meanwhile(interrupt)
    job = submitted(cast.site, "BACKUP")
    assert run("hosting_job", "watch", job.code)[0] == 1
    assert Job.objects.get().status == Status.QUEUED


def test_a_stranger_watches_nothing(cast: Cast) -> None:
    job = submitted(cast.site, "BACKUP")
    code, out, err = run("hosting_job", "watch", job.code, "--as", cast.stranger.username)
    assert (code, out, err) == (1, "", f"There is no job {job.pk}.\n")
