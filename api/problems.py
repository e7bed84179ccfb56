"""Every error of the API as one problem document (RFC 9457), made in one place."""

from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import set_rollback

from audit.redaction import clean_text
from backups.exceptions import BackupNotFound
from jobs.exceptions import (
    ApprovalRequired,
    Forbidden,
    KeyConflict,
    NotReady,
    NotVisible,
    Refused,
    WrongState,
)
from sites.exceptions import SiteNotFound

PROBLEM_TYPE = "application/problem+json"
STATUS_OF: dict[type[Exception], int] = {
    NotVisible: 404,
    SiteNotFound: 404,
    BackupNotFound: 404,
    Http404: 404,
    Forbidden: 403,
    ApprovalRequired: 403,
    PermissionDenied: 403,
    KeyConflict: 409,
    WrongState: 409,
    NotReady: 409,
    Refused: 400,
    RequestDataTooBig: 413,
}

PLAIN_CODES = {404: "not_found", 413: "body_too_large"}


class LoginRefused(exceptions.APIException):
    """Name and password do not fit, or the login is locked for a while."""

    status_code = 401
    default_code = "login_refused"
    default_detail = "Name and password do not fit, or the login is locked for a while."
    auth_header = "Token"


class BodyTooLarge(exceptions.APIException):
    """The request's body is larger than the API takes."""

    status_code = 413
    default_code = "body_too_large"
    default_detail = "The body is too large."


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """Give the answer for an error raised in a view; None lets Django make its 500."""
    request: Request | None = context.get("request")
    document = _document(error)
    if document is None:
        return None
    set_rollback()
    if request is not None:
        document["instance"] = request.path
    headers = _headers(error)
    return Response(document, status=document["status"], headers=headers, content_type=PROBLEM_TYPE)


def _document(error: Exception) -> dict[str, Any] | None:
    if isinstance(error, exceptions.APIException):
        return _of_framework(error)
    for kind, status in STATUS_OF.items():
        if isinstance(error, kind):
            code = getattr(error, "code", PLAIN_CODES.get(status, "refused"))
            detail = "There is nothing here." if isinstance(error, Http404) else str(error)
            return _problem(status, code, detail, getattr(error, "errors", []))
    return None


def _of_framework(error: exceptions.APIException) -> dict[str, Any]:
    codes = error.get_codes()
    if isinstance(error, exceptions.ValidationError):
        errors = list(_flattened(error.detail))
        return _problem(error.status_code, "invalid", "Some values cannot be taken.", errors)
    return _problem(error.status_code, codes if isinstance(codes, str) else "error", str(error.detail), [])


def _flattened(detail: Any, key: str = "") -> Any:
    if isinstance(detail, dict):
        for name, inner in detail.items():
            yield from _flattened(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(detail, list):
        for inner in detail:
            yield from _flattened(inner, key)
    else:
        yield {"key": clean_text(key), "message": clean_text(str(detail))}


def _problem(status: int, code: str, detail: str, errors: list[dict[str, str]]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
    }
    if errors:
        document["errors"] = errors
    return document


def _headers(error: Exception) -> dict[str, str]:
    headers = {}
    if getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = str(error.auth_header)  # type: ignore[attr-defined]
    if getattr(error, "wait", None):
        headers["Retry-After"] = str(int(error.wait))  # type: ignore[attr-defined]
    return headers
