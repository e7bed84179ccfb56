"""What staff does to people's records is in the trail, and passwords are not."""

import json

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from audit.models import AuditEntry
from tests.cast import Cast

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff(cast: Cast) -> Client:
    client = Client()
    client.force_login(cast.staff)
    return client


def test_a_password_that_staff_sets_is_recorded_without_itself(cast: Cast, staff: Client) -> None:
    secret = "a quite long secret word"
    path = reverse("admin:auth_user_password_change", args=[cast.viewer.pk])
    answer = staff.post(path, {"password1": secret, "password2": secret, "usable_password": "true"})
    entry = AuditEntry.objects.latest("sequence")
    assert answer.status_code == 302
    assert (entry.action, entry.target) == ("record.changed", f"user:{cast.viewer.username}")
    assert json.loads(entry.data) == {"password_set": True}
    assert secret not in "".join(AuditEntry.objects.values_list("data", flat=True))


def test_the_rights_that_a_person_is_given_are_recorded(cast: Cast, staff: Client) -> None:
    permission = Permission.objects.get(codename="operate_site")
    form = {
        "username": cast.onlooker.username,
        "is_active": "on",
        "is_staff": "on",
        "user_permissions": [permission.pk],
    }
    path = reverse("admin:accounts_user_change", args=[cast.onlooker.pk])
    assert staff.post(path, form).status_code == 302
    assert json.loads(AuditEntry.objects.latest("sequence").data)["permissions"] == ["operate_site"]
