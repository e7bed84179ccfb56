"""Rule 16: every address of panel and API, walked from the resolver, by nobody and by a stranger."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from accounts.models import User
from audit.clock import database_now
from backups.models import Backup, Integrity, ScheduleType
from jobs.models import Job
from tests.cast import Cast
from tests.jobs.samples import submitted

pytestmark = pytest.mark.django_db

METHODS = ("get", "head", "post", "put", "patch", "delete", "options", "trace")
REFUSED = {301, 302, 401, 403, 404, 405}
# What anybody may reach. A new public address fails here until it is listed with its reason.
# Leaving is open to all: for nobody it ends nothing.
PUBLIC = {"panel:login", "panel:logout", "api:login"}


@dataclass(frozen=True)
class Address:
    """One address by its name, and the names of the arguments in it."""

    name: str
    arguments: tuple[str, ...]


def _addresses() -> Iterator[Address]:
    for space in ("panel", "api"):
        for pattern in _patterns(get_resolver(f"{space}.urls").url_patterns):
            yield Address(f"{space}:{pattern.name}", tuple(pattern.pattern.converters))


def _patterns(patterns: list[Any]) -> Iterator[URLPattern]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _patterns(pattern.url_patterns)
        else:
            yield pattern


ADDRESSES = sorted(_addresses(), key=lambda address: address.name)


@pytest.fixture
def rows(cast: Cast) -> dict[str, Any]:
    """Give a value for each argument that an address can have, all of the first customer."""
    job = submitted(cast.site, "BACKUP")
    backup = Backup.objects.create(
        code="BK-20260813-170001",
        site=cast.site,
        server=cast.server,
        job=job,
        store="archive",
        schedule_type=ScheduleType.MANUAL,
        integrity=Integrity.VERIFIED,
        created_at=database_now(),
    )
    return {"site_id": cast.site.pk, "job": job.code, "backup": backup.code}


def _path(address: Address, rows: dict[str, Any]) -> str:
    code = rows["job"] if "job" in address.name or address.name.endswith("cancel") else rows["backup"]
    values = {"site_id": rows["site_id"], "code": code}
    return reverse(address.name, kwargs={name: values[name] for name in address.arguments})


def _ask(user: User | None, method: str, path: str) -> Any:
    client = Client(raise_request_exception=True)
    if user is not None:
        client.force_login(user)
    return client.generic(method.upper(), path, b'{"reason": "x"}', content_type="application/json")


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: address.name)
def test_nobody_gets_in_anywhere_by_any_method(address: Address, rows: dict[str, Any]) -> None:
    """Panel-security S1: also by methods that nobody thought of."""
    jobs = Job.objects.count()
    path = _path(address, rows)
    for method in METHODS:
        answer = _ask(None, method, path)
        if address.name in PUBLIC:
            assert answer.status_code < 500
        elif answer.status_code in (301, 302):
            assert "/login/" in answer["Location"], (method, answer["Location"])
        else:
            assert answer.status_code in REFUSED, (method, answer.status_code)
    assert Job.objects.count() == jobs


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: address.name)
def test_a_stranger_sees_and_touches_nothing_of_another_tenant(
    address: Address, rows: dict[str, Any], cast: Cast
) -> None:
    path = _path(address, rows)
    jobs = list(Job.objects.values_list("pk", "status"))
    for method in ("get", "post"):
        answer = _ask(cast.stranger, method, path)
        if address.arguments:
            assert answer.status_code in (404, 405), (method, answer.status_code)
        shown = b"".join(answer.streaming_content) if answer.streaming else answer.content
        for secret in (cast.site.domain, cast.customer.name, rows["backup"]):
            assert secret.encode() not in shown or secret.encode() in path.encode(), (method, secret)
    assert list(Job.objects.values_list("pk", "status")) == jobs


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: address.name)
def test_reading_changes_nothing(address: Address, rows: dict[str, Any], cast: Cast) -> None:
    """Panel-security S67."""
    path = _path(address, rows)
    before = list(Job.objects.values()), list(Backup.objects.values())
    for _ in range(2):
        assert _ask(cast.owner, "get", path).status_code < 500
    assert (list(Job.objects.values()), list(Backup.objects.values())) == before
