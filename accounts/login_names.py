"""The name that somebody typed at a login, made storable before anything counts failures by it."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

from audit.redaction import clean_text

LONGEST_NAME = 150


def tried_name(request: HttpRequest, credentials: Mapping[str, Any] | None = None) -> str:
    """Give the name, cleaned and cut to the length that a username can have."""
    typed = (credentials or {}).get("username") or request.POST.get("username", "")
    return clean_text(typed, LONGEST_NAME)[:LONGEST_NAME]
