"""Logins, logouts and refused logins are in the trail, and no password is (rules 15 and 17)."""

import json

import pytest
from django.core.cache import cache
from django.test import Client

from audit.actions import Action
from audit.models import AuditEntry
from tests.cast import PASSWORD, Cast

pytestmark = pytest.mark.django_db

MISTYPED = "hunter2 of all things"


@pytest.fixture(autouse=True)
def _no_throttle_left_over() -> None:
    cache.clear()


def _post(path: str, username: str, password: str) -> None:
    Client().post(path, {"username": username, "password": password}, REMOTE_ADDR="192.0.2.7")


def _last() -> AuditEntry:
    return AuditEntry.objects.latest("sequence")


@pytest.mark.parametrize(("path", "face"), [("/login/", "panel"), ("/admin/login/", "admin")])
def test_a_login_names_who_came_in_and_by_which_face(cast: Cast, path: str, face: str) -> None:
    _post(path, "staff", PASSWORD)
    entry = _last()
    assert (entry.action, entry.actor, entry.target) == (
        Action.LOGIN_SUCCEEDED,
        f"staff ({face})",
        "user:staff",
    )
    assert json.loads(entry.data) == {"address": "192.0.2.7"}


@pytest.mark.parametrize("username", ["owner", "nobody-of-this-name"])
def test_a_refused_login_names_what_was_typed_and_no_password(cast: Cast, username: str) -> None:
    _post("/login/", username, MISTYPED)
    entry = _last()
    assert (entry.action, entry.actor, entry.target, entry.result) == (
        Action.LOGIN_FAILED,
        "anonymous (panel)",
        f"user:{username}",
        "denied",
    )
    assert MISTYPED not in str(vars(entry))


def test_a_refused_login_of_the_api_is_there_too(cast: Cast) -> None:
    body = json.dumps({"username": "owner", "password": MISTYPED})
    Client().post("/api/v1/auth/login/", body, content_type="application/json")
    entry = _last()
    assert (entry.action, entry.actor) == (Action.LOGIN_FAILED, "anonymous (api)")
    assert MISTYPED not in str(vars(entry))


def test_a_hostile_name_is_cleaned_and_cut(cast: Cast) -> None:
    _post("/login/", "\x1b[31mroot\u202e" + "x" * 5000, MISTYPED)
    target = _last().target
    assert "\x1b" not in target
    assert "\u202e" not in target
    assert len(target) <= 300


def test_a_logout_is_there_and_one_of_nobody_is_not(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.owner, backend="django.contrib.auth.backends.ModelBackend")
    client.post("/logout/")
    assert (_last().action, _last().actor) == (Action.LOGOUT, "owner (panel)")
    entries = AuditEntry.objects.count()
    client.post("/logout/")
    assert AuditEntry.objects.count() == entries
