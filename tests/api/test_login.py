"""Tokens: got for a password, stored as digests, ended on demand, audited."""

import json
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from knox.models import AuthToken

from audit.actions import Action
from audit.models import AuditEntry
from tests.cast import PASSWORD, Cast

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_throttle_left_over() -> None:
    cache.clear()


def _login(username: str, password: str) -> Any:
    body = json.dumps({"username": username, "password": password})
    return Client().post("/api/v1/auth/login/", body, content_type="application/json")


def test_a_token_opens_the_api_until_it_is_ended(cast: Cast) -> None:
    token = _login(cast.owner.username, PASSWORD).json()["token"]
    headers = {"Authorization": f"Token {token}"}
    assert Client().get("/api/v1/sites/", headers=headers).status_code == 200
    assert Client().post("/api/v1/auth/logout/", headers=headers).status_code == 204
    assert Client().get("/api/v1/sites/", headers=headers).status_code == 401
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {Action.TOKEN_CREATED, Action.TOKEN_REVOKED} <= actions


def test_the_token_itself_is_stored_nowhere(cast: Cast) -> None:
    """Rule 17."""
    token = _login(cast.owner.username, PASSWORD).json()["token"]
    row = AuthToken.objects.get()
    assert token not in (row.digest, row.token_key)
    assert not any(token in entry.data for entry in AuditEntry.objects.all())


@pytest.mark.parametrize(("username", "password"), [("owner", "wrong"), ("nobody", "x"), ("a\r\nb", "x")])
def test_a_wrong_login_is_401_and_gives_no_token(cast: Cast, username: str, password: str) -> None:
    answer = _login(username, password)
    assert (answer.status_code, answer["Content-Type"]) == (401, "application/problem+json")
    assert not AuthToken.objects.exists()


def test_a_deactivated_users_token_is_worth_nothing(cast: Cast) -> None:
    token = _login(cast.owner.username, PASSWORD).json()["token"]
    cast.owner.is_active = False
    cast.owner.save()
    assert Client().get("/api/v1/sites/", headers={"Authorization": f"Token {token}"}).status_code == 401


def test_a_new_password_ends_the_tokens_of_the_old_one(cast: Cast) -> None:
    headers = {"Authorization": f"Token {_login(cast.owner.username, PASSWORD).json()['token']}"}
    cast.owner.set_password("another good password")
    cast.owner.save()
    assert Client().get("/api/v1/sites/", headers=headers).status_code == 401
    renewed = _login(cast.owner.username, "another good password").json()["token"]
    assert Client().get("/api/v1/sites/", headers={"Authorization": f"Token {renewed}"}).status_code == 200
