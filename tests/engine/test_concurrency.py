"""Eight worker processes on one queue of thousands of jobs: nothing twice, nothing beside its conflict.

`CHP_ENGINE_JOBS` is how many jobs there are: some hundred in each run of the suite, 5,000 in `make soak`.
"""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from pytest_django import Settings

from jobs.models import Job, JobEvent
from jobs.states import Status
from sites.models import Server
from tests.cast import Cast
from tests.engine import crowd
from tests.engine.crowd import Wish
from tests.engine.invariants import violations
from tests.engine.limits import BY_TYPE, OVERALL
from tests.engine.violation import Expected
from tests.processes import StartWorker

pytestmark = pytest.mark.django_db(transaction=True)

JOBS = int(os.environ.get("CHP_ENGINE_JOBS", "600"))
SITES = 300
WORKERS = 8
SEED = 20260813
# Ends a run in which nothing moves; no measure of speed.
PATIENCE = 120.0
# Eight workers on two cores may be silent for long: here nobody is lost.
CALM = {"CHP_HEARTBEAT_SECONDS": "2", "CHP_STALE_BEATS": "60"}


@pytest.fixture
def workers(start_worker: StartWorker, settings: Settings) -> Callable[[], list["subprocess.Popen[bytes]"]]:
    """Give a function that starts the workers. It is made before the jobs: they take the limits with them."""
    settings.CHP_HEARTBEAT_SECONDS = float(CALM["CHP_HEARTBEAT_SECONDS"])
    settings.CHP_STALE_BEATS = int(CALM["CHP_STALE_BEATS"])
    more = {**CALM, "DJANGO_SETTINGS_MODULE": "tests.engine.settings", "MAX_WORKERS": str(OVERALL)}
    return lambda: [start_worker("--name", f"w{number}", "--slots", "1", **more) for number in range(WORKERS)]


def _submitted(cast: Cast, mark: Path) -> dict[int, Wish]:
    second = Server.objects.create(
        name="web2", agent_socket="/nonexistent/agent.sock", key_id="web2", web_address="127.0.0.1:9"
    )
    sites = crowd.make_sites([cast.customer, cast.other_customer], [cast.server, second], SITES)
    wanted = crowd.wishes(Random(SEED), sites, mark, seconds=(0.0, 0.02, 0.02), timed=True)
    return crowd.submit(islice(wanted, JOBS))


def _wait() -> None:
    """Wait until all have ended, for as long as anything still happens."""
    seen, ends = -1, time.monotonic() + PATIENCE
    while not crowd.is_over():
        happened = JobEvent.objects.order_by("-pk").values_list("pk", flat=True)[0]
        if happened != seen:
            seen, ends = happened, time.monotonic() + PATIENCE
        if time.monotonic() > ends:
            raise AssertionError(f"nothing happened for {PATIENCE} s: {_states()}")
        time.sleep(0.2)


def _states() -> Counter[tuple[str, str]]:
    return Counter(Job.objects.values_list("job_type", "status"))


def _log(folder: Path) -> str:
    return (folder / "worker.log").read_text(errors="replace")


def test_each_of_thousands_of_jobs_is_done_once_within_all_limits(
    cast: Cast, workers: Callable[[], list["subprocess.Popen[bytes]"]], tmp_path: Path
) -> None:
    """Queue A1, I7, K1, K4: many workers, blocked jobs at the head, both databases, none of them "locked"."""
    mark = tmp_path / "marks"
    made = _submitted(cast, mark)
    started = workers()
    _wait()
    for worker in started:
        worker.send_signal(signal.SIGTERM)
    codes = [worker.wait(60) for worker in started]
    expected = Expected(overall=OVERALL, by_type=BY_TYPE, all_ended=True, orphans=frozenset(), marks=mark)
    assert violations(expected) == []
    assert _states() == Counter((wish.request.operation, str(wish.fate)) for wish in made.values())
    errors = Job.objects.filter(status=Status.FAILED).values_list("error_message", flat=True)
    assert set(errors) <= {"it was asked to fail"}
    assert "database is locked" not in _log(tmp_path)
    assert codes == [0] * WORKERS
