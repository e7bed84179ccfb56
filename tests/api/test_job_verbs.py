"""Retry, chains and cancel by the API, and what a job tells of those around it."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.actor import operator
from api import requests
from audit.actions import Action
from audit.models import AuditEntry
from jobs import pauses, pipeline
from jobs.models import Job, JobEvent, PauseScope
from jobs.pauses import Target
from jobs.request import JobRequest
from jobs.states import Status
from tests.api.test_verbs import post
from tests.cast import Cast
from tests.jobs.samples import moved, submitted
from tests.panel.samples import WAYS, chain_of, job_in, make_backup, make_job, visitor

pytestmark = pytest.mark.django_db
WHY = {"reason": "because"}


def _job(user: Any, code: str) -> Any:
    return visitor(user).get(f"/api/v1/jobs/{code}/").json()


def _rows() -> list[Any]:
    return [list(Job.objects.values()), list(JobEvent.objects.values())]


@pytest.mark.parametrize("status", [status for status in WAYS if status not in ("QUEUED", "RUNNING")])
def test_what_is_over_cannot_be_called_off_however_often(cast: Cast, status: Status) -> None:
    """Queue D6: 409 with a clear answer each time, and nothing changes."""
    job = job_in(status, cast.site)
    before = _rows()
    for _ in range(2):
        answer = post(cast.owner, f"jobs/{job.code}/cancel/", WHY)
        assert (answer.status_code, answer.json()["code"]) == (409, "wrong_state")
        assert answer.json()["detail"].startswith(f"{job.code} is {status.label};")
    assert _rows() == before


def test_a_failed_job_is_done_again(cast: Cast) -> None:
    job = job_in(Status.FAILED, cast.site)
    answer = post(cast.owner, f"jobs/{job.code}/retry/", WHY)
    data = answer.json()
    assert (answer.status_code, data["status"], data["attempt"]) == (202, "QUEUED", 0)
    assert (data["readiness"], data["waiting_reason"]) == ("READY", "no live worker")
    assert answer["Location"].endswith(f"/jobs/{job.code}/")
    assert AuditEntry.objects.latest("sequence").action == Action.JOB_REQUEUED


def test_a_retry_needs_a_reason_a_right_and_a_state(cast: Cast) -> None:
    job = job_in(Status.FAILED, cast.site)
    path = f"jobs/{job.code}/retry/"
    assert post(cast.owner, path).status_code == 400
    assert post(cast.owner, path, {**WHY, "all": True}).status_code == 400
    assert post(cast.viewer, path, WHY).status_code == 403
    assert post(cast.onlooker, path, WHY).status_code == 403
    assert post(cast.stranger, path, WHY).status_code == 404
    assert Client().post(f"/api/v1/{path}", WHY, content_type="application/json").status_code == 401
    assert Job.objects.get().status == "FAILED"
    assert post(cast.owner, path, WHY).status_code == 202
    again = post(cast.owner, path, WHY)
    assert (again.status_code, again.json()["code"]) == (409, "wrong_state")


def test_what_needed_an_approval_is_not_done_again(cast: Cast) -> None:
    backup = make_backup(cast.site)
    job = job_in(Status.FAILED, cast.site, "RESTORE", payload={"backup": backup.code})
    answer = post(cast.owner, f"jobs/{job.code}/retry/", WHY)
    assert (answer.status_code, answer.json()["code"]) == (403, "approval_required")


def test_an_orphan_is_retried_by_staff_alone(cast: Cast) -> None:
    job = job_in(Status.ORPHANED, cast.site)
    assert post(cast.owner, f"jobs/{job.code}/retry/", WHY).status_code == 403
    assert post(cast.staff, f"jobs/{job.code}/retry/", WHY).status_code == 202


def test_a_child_that_was_called_off_names_its_parent(cast: Cast) -> None:
    """Queue D12."""
    parent, child = chain_of(cast.site, cast.site)
    moved(parent, Status.CANCELLED)
    answer = post(cast.owner, f"jobs/{child.code}/retry/", WHY)
    assert answer.status_code == 409
    assert f"called off with {parent.code}" in answer.json()["detail"]
    assert _job(cast.owner, child.code)["called_off_with"] == parent.code


def test_the_key_of_a_failed_job_gives_that_job_also_after_its_retry(cast: Cast) -> None:
    """Queue E4."""
    wish = JobRequest("BACKUP", cast.site.pk, idempotency_key="k")
    job = pipeline.submit(operator("root"), wish).job
    moved(moved(job, Status.RUNNING), Status.FAILED)
    assert post(cast.owner, f"jobs/{job.code}/retry/", WHY).status_code == 202
    again = post(cast.owner, f"jobs/{job.code}/retry/", WHY)
    assert again.json()["detail"] == f"{job.code} is queued; only a failed or orphaned job can be retried."
    assert pipeline.submit(operator("root"), wish).job.pk == job.pk
    assert Job.objects.count() == 1


def test_a_job_of_a_type_that_is_gone_is_shown_and_called_off_by_staff(cast: Cast) -> None:
    """Queue H1."""
    job = make_job(cast.site, job_type="FORMER")
    assert _job(cast.owner, job.code)["type"] == "FORMER"
    assert post(cast.owner, f"jobs/{job.code}/cancel/", WHY).status_code == 403
    assert post(cast.owner, f"jobs/{job.code}/retry/", WHY).status_code == 400
    assert post(cast.staff, f"jobs/{job.code}/cancel/", WHY).status_code == 202


def _wish(site: Any, **more: Any) -> dict[str, Any]:
    return {"operation": "BACKUP", "site": site.pk, "payload": {}, **more}


def test_a_chain_is_queued_in_the_order_of_the_requests(cast: Cast) -> None:
    earlier = submitted(cast.site, "BACKUP")
    body = [
        _wish(cast.site, label="last", after=["first", earlier.code], reason="then"),
        _wish(cast.read_only_site, label="first", priority="LOW"),
    ]
    answer = post(cast.owner, "jobs/chains/", body)
    assert answer.status_code == 201
    last, first = answer.json()
    assert (last["parents"], last["readiness"], last["reason"]) == (
        [earlier.code, first["code"]],
        "PARENT",
        "then",
    )
    assert (first["dependents"], first["readiness"], first["priority"]) == ([last["code"]], "READY", "LOW")
    assert f"waits for {earlier.code}" in last["waiting_reason"]
    assert set(Job.objects.values_list("requested_by", flat=True)) == {"root", cast.owner.username}


def test_the_same_key_gives_the_same_chain(cast: Cast) -> None:
    body = [_wish(cast.site, label="a"), _wish(cast.site, after=["a"]), _wish(cast.site)]
    first, again = (post(cast.owner, "jobs/chains/", body, **{"Idempotency-Key": "k"}) for _ in range(2))
    assert first.status_code == again.status_code == 201
    assert [job["code"] for job in first.json()] == [job["code"] for job in again.json()]
    assert Job.objects.count() == 3


FAULTS: list[tuple[str, dict[str, Any], int, str, str]] = [
    ("an unknown key", {"command": "id"}, 400, "1.command", "not known"),
    ("a smuggled state", {"status": "SUCCESS"}, 400, "1.status", "not known"),
    ("no site", {"site": None}, 400, "1.site", "null"),
    ("an unknown type", {"operation": "NOPE"}, 400, "1", "Unknown job type"),
    ("a wrong payload", {"payload": {"x": 1}}, 400, "1.payload.x", "not known"),
    ("a site that is not there", {"site": 999_999}, 404, "1", "no site"),
    ("a job that is not there", {"after": ["JOB-999999"]}, 404, "1", "no job"),
    ("too high a priority", {"priority": "CRITICAL"}, 403, "1", "Only staff"),
]


@pytest.mark.parametrize(
    ("change", "status", "key", "words"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_one_fault_queues_nothing_and_is_named_by_its_place(
    cast: Cast, change: dict[str, Any], status: int, key: str, words: str
) -> None:
    body = [_wish(cast.site), {**_wish(cast.site, label="second"), **change}]
    answer = post(cast.owner, "jobs/chains/", body)
    data = answer.json()
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert data["errors"][0]["key"] == key
    assert words in data["errors"][0]["message"]
    assert not Job.objects.exists()
    assert AuditEntry.objects.latest("sequence").action == Action.ACCESS_DENIED


def test_the_sentence_of_a_refusal_names_request_and_label(cast: Cast) -> None:
    answer = post(cast.viewer, "jobs/chains/", [_wish(cast.site, label="nightly")])
    assert answer.status_code == 403
    assert answer.json()["detail"].startswith("Nothing was queued. Request 0, 'nightly': viewer may see")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("[]", "from 1 to 50"),
        ("{}", "is a list"),
        ('{"jobs": []}', "is a list"),
        ("[7]", "Invalid data"),
        ("[", "not JSON"),
        (f"[{'{},' * 50}{{}}]", "This field is required"),
    ],
)
def test_what_is_no_chain_is_refused(cast: Cast, body: str, words: str) -> None:
    """Queue I10: an empty body asks for nothing."""
    answer = post(cast.owner, "jobs/chains/", body)
    assert answer.status_code == 400
    assert words in str(answer.json())
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"label": "a", "after": ["b"]}, {"label": "b", "after": ["a"]}, "a -> b -> a"),
        ({"label": "a"}, {"label": "a"}, "Two jobs"),
        ({"label": "a"}, {"after": ["c"]}, "labelled 'c'"),
    ],
)
def test_what_hangs_together_wrongly_is_refused_with_the_labels(
    cast: Cast, one: dict[str, Any], other: dict[str, Any], words: str
) -> None:
    answer = post(cast.owner, "jobs/chains/", [_wish(cast.site, **one), _wish(cast.site, **other)])
    assert answer.status_code == 400
    assert words in answer.json()["detail"]
    assert not Job.objects.exists()


def test_nothing_of_others_can_be_waited_for_or_chained(cast: Cast) -> None:
    """Rule 16."""
    foreign = submitted(cast.foreign_site, "BACKUP")
    for wish in (_wish(cast.site, after=[foreign.code]), _wish(cast.foreign_site)):
        assert post(cast.owner, "jobs/chains/", [wish]).status_code == 404
    assert Client().post("/api/v1/jobs/chains/", "[]", content_type="application/json").status_code == 401
    assert Job.objects.count() == 1


def test_relations_across_customers_are_told_to_staff_alone(cast: Cast) -> None:
    foreign, mine = chain_of(cast.foreign_site, cast.site)
    assert _job(cast.staff, mine.code)["parents"] == [foreign.code]
    assert _job(cast.owner, mine.code)["parents"] == []
    assert _job(cast.stranger, foreign.code)["dependents"] == []


def test_a_job_that_is_not_queued_has_no_readiness(cast: Cast) -> None:
    data = _job(cast.owner, job_in(Status.RUNNING, cast.site).code)
    assert (data["readiness"], data["waiting_reason"], data["parents"]) == (None, None, [])


def test_a_hundred_jobs_of_one_moment_are_seen_once_each(cast: Cast) -> None:
    """Queue I6: pages go by key, whatever the times are."""
    made = [make_job(cast.site).code for _ in range(100)]
    Job.objects.update(created_at=Job.objects.first().created_at)  # type: ignore[union-attr]
    client, seen, path = visitor(cast.owner), [], "/api/v1/jobs/?page_size=25"
    sizes = []
    while path:
        page = client.get(path).json()
        sizes.append(len(page["results"]))
        seen += [row["code"] for row in page["results"]]
        path = page["next"]
    assert (seen, sizes) == (made[::-1], [25] * 4)


def test_a_list_costs_the_same_however_long(cast: Cast) -> None:
    client = visitor(cast.owner)

    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert client.get("/api/v1/jobs/?page_size=200").status_code == 200
        return len(asked)

    chain_of(cast.site, cast.site)
    submitted(cast.site, "BACKUP")
    few = queries()
    for _ in range(10):
        chain_of(cast.site, cast.read_only_site)
    assert queries() == few <= 16


def test_of_a_body_of_very_many_jobs_only_the_first_are_looked_at(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that is small enough holds many thousand empty ones."""
    looked: list[bool] = []
    whole = requests.ChainedJobSerializer

    def look(**more: Any) -> Any:
        looked.append(True)
        return whole(**more)

    monkeypatch.setattr(requests, "ChainedJobSerializer", look)
    answer = post(cast.owner, "jobs/chains/", [{}] * 10_000)
    assert (answer.status_code, len(looked)) == (400, 51)


# --- What an attack found ------------------------------------------------------------------------
def test_what_only_staff_may_ask_for_is_not_had_by_a_retry(cast: Cast) -> None:
    """A backup of the plan counts for retention, so its kind is not for customers to choose."""
    wish = JobRequest("BACKUP", cast.site.pk, {"schedule_type": "DAILY"})
    job = pipeline.submit(operator("root"), wish).job
    moved(job, Status.CANCELLED)
    Job.objects.filter(pk=job.pk).update(status=Status.FAILED)
    answer = post(cast.owner, f"jobs/{job.code}/retry/", WHY)
    assert answer.status_code == 403
    assert Job.objects.get(pk=job.pk).status == Status.FAILED
    assert pipeline.retry(operator("root"), job.pk, "again").status == Status.QUEUED


def test_what_runs_on_a_site_that_lost_the_capability_can_be_stopped(cast: Cast) -> None:
    job = make_job(cast.site)
    cast.site.capabilities = []
    cast.site.save()
    assert post(cast.owner, f"jobs/{job.code}/cancel/", WHY).status_code == 202
    assert Job.objects.get(pk=job.pk).status == Status.CANCELLED


def test_a_secret_in_a_reason_is_masked_in_the_row_too(cast: Cast) -> None:
    wish = JobRequest("BACKUP", cast.site.pk, {}, reason="password=hunter2xyz told me to")
    job = pipeline.submit(operator("root"), wish).job
    assert "hunter2xyz" not in Job.objects.get(pk=job.pk).reason


@pytest.mark.parametrize("name", ["created_after", "created_before"])
@pytest.mark.parametrize("offset", ["%2B16:00", "-16:00", "%2B23:59"])
def test_a_time_zone_that_no_database_knows_is_an_error_that_says_so(
    cast: Cast, name: str, offset: str
) -> None:
    answer = visitor(cast.owner).get(f"/api/v1/jobs/?{name}=2026-01-01T00:00:00{offset}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["key"] == name


def test_a_time_without_a_zone_is_refused(cast: Cast) -> None:
    body = {"operation": "BACKUP", "site": cast.site.pk, "scheduled_at": "2026-12-02T00:00:00"}
    answer = post(cast.owner, "jobs/", body)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["key"] == "scheduled_at"


def test_half_a_letter_in_a_choice_is_an_error_that_can_be_written(cast: Cast) -> None:
    client = visitor(cast.owner)
    body = json.dumps({"operation": "BACKUP", "site": cast.site.pk, "priority": "\ud800"})
    answer = client.post("/api/v1/jobs/", body, content_type="application/json")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["key"] == "priority"


def test_a_chain_of_another_length_under_the_same_key_is_another_body(cast: Cast) -> None:
    body = [_wish(cast.site), _wish(cast.site)]
    key = {"Idempotency-Key": "k"}
    assert post(cast.owner, "jobs/chains/", body, **key).status_code == 201
    shorter = post(cast.owner, "jobs/chains/", body[:1], **key)
    assert (shorter.status_code, shorter.json()["code"]) == (409, "idempotency_conflict")
    assert Job.objects.count() == 2


def test_who_paused_and_why_is_for_staff_to_read(cast: Cast) -> None:
    job = make_job(cast.site)
    pauses.pause(operator("root"), Target(PauseScope.ALL), "theirs.test does not pay")
    told = _job(cast.owner, job.code)["waiting_reason"]
    assert told.startswith("paused by the hosting company since ")
    assert "theirs.test" in _job(cast.staff, job.code)["waiting_reason"]
