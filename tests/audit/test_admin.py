"""The trail in the admin: readable, searchable, and nowhere writable."""

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from audit.admin import MOST_COUNTED, CappedPaginator
from audit.models import AuditEntry, AuditHead
from tests.audit.builders import write

pytestmark = pytest.mark.django_db

LIST = "admin:audit_auditentry_changelist"


@pytest.fixture
def staff() -> Client:
    """Give a logged-in superuser, who may do all that anybody may."""
    user = get_user_model().objects.create_superuser("root-user")
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    # The login is an entry itself; these tests count from an empty trail.
    AuditEntry.objects.all().delete()
    AuditHead.objects.all().delete()
    return client


def numbers(client: Client, **query: str) -> list[int]:
    response = client.get(reverse(LIST), query, secure=True)
    assert response.status_code == 200
    return [entry.sequence for entry in response.context["cl"].result_list]


def test_list_shows_the_newest_first(staff: Client) -> None:
    write(3)
    assert numbers(staff) == [3, 2, 1]


@pytest.mark.parametrize(
    ("term", "found"),
    [("2", [2]), ("JOB-000002", [2]), ("alice (panel)", [3, 2, 1]), ("acme", [3, 2, 1]), ("ali", [])],
)
def test_search_takes_whole_terms(staff: Client, term: str, found: list[int]) -> None:
    write(3, tenant="acme")
    assert numbers(staff, q=term) == found


def test_filter_by_action(staff: Client) -> None:
    write(2)
    write(1, action="logout")
    assert numbers(staff, action="logout") == [3]
    assert numbers(staff, action="job.enqueued") == [2, 1]


def test_one_entry_can_be_read_and_hostile_text_is_text(staff: Client) -> None:
    write(1, reason="<img src=x onerror=alert(1)>")
    page = staff.get(reverse("admin:audit_auditentry_change", args=[1]), secure=True).content.decode()
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page


@pytest.mark.parametrize("act", ["add", "change", "delete"])
def test_nobody_writes(staff: Client, act: str) -> None:
    (entry,) = write(1)
    address = reverse(f"admin:audit_auditentry_{act}", args=[] if act == "add" else [1])
    assert staff.post(address, {"post": "yes", "actor": "mallory"}, secure=True).status_code == 403
    assert AuditEntry.objects.get(pk=1) == entry
    # The try itself is all that was added.
    assert list(AuditEntry.objects.filter(pk__gt=1).values_list("action", flat=True)) == ["access.denied"]


def test_no_action_deletes_many(staff: Client) -> None:
    write(2)
    chosen = {"action": "delete_selected", "_selected_action": ["1", "2"], "post": "yes"}
    staff.post(reverse(LIST), chosen, secure=True)
    assert AuditEntry.objects.count() == 2


def test_head_is_read_only_too(staff: Client) -> None:
    write(1)
    address = reverse("admin:audit_audithead_delete", args=[AuditHead.ONLY])
    assert staff.post(address, {"post": "yes"}, secure=True).status_code == 403


def test_large_trails_are_not_counted_to_their_end(
    django_assert_num_queries: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(30)
    monkeypatch.setattr("audit.admin.MOST_COUNTED", 20)
    paginator = CappedPaginator(AuditEntry.objects.all(), 10)
    with django_assert_num_queries(1) as asked:
        assert paginator.count == 20
    assert "LIMIT 21" in asked.captured_queries[0]["sql"]
    assert MOST_COUNTED > 20


def test_list_asks_for_no_full_count() -> None:
    assert admin.site.get_model_admin(AuditEntry).show_full_result_count is False
