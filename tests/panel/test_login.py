"""The door: in, out, where to, and when it is closed."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from audit.models import AuditEntry
from tests.cast import PASSWORD, Cast
from tests.panel.samples import HOSTILE, visitor

pytestmark = pytest.mark.django_db

ELSEWHERE = (
    "https://evil.test/",
    "//evil.test/",
    "/\\evil.test",
    "https:evil.test",
    "javascript:alert(1)",
    "%2f%2fevil.test",
    "\thttps://evil.test",
)


def _log_in(client: Client, password: str = PASSWORD, username: str = "owner", **more: str) -> Any:
    return client.post("/login/", {"username": username, "password": password, **more})


def test_a_member_comes_in_and_goes_home(cast: Cast) -> None:
    client = Client()
    answer = _log_in(client)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert cast.site.domain in client.get("/").content.decode()


def test_the_page_that_was_asked_for_comes_after_the_login(cast: Cast) -> None:
    assert 'value="/jobs/"' in Client().get("/login/?next=/jobs/").content.decode()
    assert _log_in(Client(), next="/jobs/")["Location"] == "/jobs/"


@pytest.mark.parametrize("target", ELSEWHERE)
def test_a_next_on_another_host_is_ignored(cast: Cast, target: str) -> None:
    assert "evil" not in Client().get("/login/", {"next": target}).content.decode().replace("%2f%2fevil", "")
    answer = _log_in(Client(), next=target)
    assert answer.status_code == 302
    assert answer["Location"] in ("/", "%2f%2fevil.test")


@pytest.mark.parametrize(("username", "password"), [("owner", "wrong"), ("nobody", "wrong"), (HOSTILE, "x")])
def test_a_wrong_login_says_the_same_whoever_it_was(cast: Cast, username: str, password: str) -> None:
    page = _log_in(Client(), password, username).content.decode()
    assert "Name and password do not fit." in page
    assert "<img" not in page


@pytest.mark.parametrize("username", ["a\0b", "$(id)", "a\r\nb", "x" * 10_000])
def test_odd_names_are_refused_calmly(cast: Cast, username: str) -> None:
    assert _log_in(Client(), "x", username).status_code == 200


def test_an_inactive_member_stays_out(cast: Cast) -> None:
    cast.owner.is_active = False
    cast.owner.save()
    assert "Name and password do not fit." in _log_in(Client()).content.decode()


def test_after_many_failures_the_login_is_closed_for_the_right_password_too(
    cast: Cast, settings: Settings
) -> None:
    settings.AXES_FAILURE_LIMIT = 3
    for _ in range(3):
        answer = _log_in(Client(), "wrong")
    assert answer.status_code == 429
    answer = _log_in(Client())
    assert answer.status_code == 429
    assert "Too many failed logins" in answer.content.decode()
    assert _log_in(Client(), username="viewer").status_code == 302


def test_logging_out_takes_a_post(cast: Cast) -> None:
    client = visitor(cast.owner)
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/").status_code == 302


def test_who_is_in_already_is_sent_home(cast: Cast) -> None:
    assert visitor(cast.owner).get("/login/")["Location"] == "/"


def test_logins_are_in_the_trail(cast: Cast) -> None:
    client = Client()
    _log_in(client, "wrong")
    _log_in(client)
    client.post("/logout/")
    actions = list(AuditEntry.objects.order_by("sequence").values_list("action", flat=True))
    assert actions == ["login.failed", "login.succeeded", "logout"]
