"""The OpenAPI document: without warnings, and with every address."""

import io
import logging

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import get_resolver

from tests.cast import Cast


def test_the_document_has_no_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", "--format", "openapi-json", stdout=out)
    assert "WARN" not in capsys.readouterr().err.upper()
    assert '"/api/v1/backups/{code}/restore/"' in out.getvalue()


@pytest.mark.django_db
def test_the_document_and_its_page_are_served_to_members_only(cast: Cast) -> None:
    logging.disable(logging.CRITICAL)
    client = Client()
    assert client.get("/api/v1/schema/").status_code == 401
    client.force_login(cast.owner)
    assert client.get("/api/v1/schema/").status_code == 200
    assert client.get("/api/v1/docs/").status_code == 200
    logging.disable(logging.NOTSET)


def test_no_address_of_the_api_is_public_but_login() -> None:
    """Panel-security S1, S3: the list of public addresses is kept by hand."""
    public = []
    for pattern in get_resolver("api.urls").url_patterns:
        view = pattern.callback.cls  # type: ignore[union-attr]
        if "AllowAny" in [permission.__name__ for permission in view.permission_classes]:
            public.append(pattern.name)
    assert public == ["login"]
