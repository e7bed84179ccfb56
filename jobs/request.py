"""REQUEST: what somebody asks for, and the checks that need no database."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from pydantic import ValidationError

from audit.redaction import clean_text
from jobs.exceptions import Invalid, InvalidPayload
from jobs.operation import Operation, Payload
from jobs.profile import Priority

MAX_PAYLOAD_BYTES = 64 * 1024
MAX_REASON = 1000
MAX_KEY = 120
MAX_LABEL = 40
MAX_AFTER = 50
MAX_DELAY = timedelta(days=366)


@dataclass(frozen=True)
class JobRequest:
    """One wish. `operation` and `payload` come from outside and are not trusted.

    `idempotency_key` is the client's own; it is scoped by who asks, the type and the site.
    `system_key` is a key of the product's own making, such as BACKUP:7:DAILY:2026-08-13.
    `after` names what the job waits for: codes of jobs, or labels of others in the same chain; `label` is its
    own name there.
    """

    operation: str
    site_id: int
    payload: Mapping[str, Any] = field(default_factory=dict)
    priority: Priority | None = None
    scheduled_at: datetime | None = None
    idempotency_key: str = ""
    system_key: str = ""
    reason: str = ""
    label: str = ""
    after: tuple[str, ...] = ()


def canonical(value: Any) -> bytes:
    """Give the one byte form of JSON data, for digests and sizes. Raises ValueError for NaN and the like."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest(value: Any) -> str:
    return sha256(canonical(value)).hexdigest()


def validated_payload(operation: Operation, payload: object) -> Payload:
    """Parse the payload by the operation's schema. Raises InvalidPayload naming every key at fault."""
    if not isinstance(payload, Mapping):
        raise InvalidPayload("The payload must be an object with named keys.")
    _require_storable(payload)
    try:
        return operation.payload.model_validate(dict(payload))
    except ValidationError as error:
        errors = [_named(line) for line in error.errors(include_url=False, include_input=False)]
        listed = "; ".join(f"{line['key']}: {line['message']}" for line in errors[:5])
        raise InvalidPayload(
            f"The payload does not fit {operation.name}: {listed}.", errors=errors
        ) from error


def _require_storable(payload: Mapping[str, Any]) -> None:
    try:
        text = canonical(payload)
    except (ValueError, TypeError, RecursionError) as error:
        reason = clean_text(str(error), 200)
        raise InvalidPayload(f"The payload is not plain JSON data: {reason}.") from error
    if len(text) > MAX_PAYLOAD_BYTES:
        raise InvalidPayload(f"The payload has {len(text)} bytes; at most {MAX_PAYLOAD_BYTES} are taken.")
    if b"\\u0000" in text or (b"\\ud" in text and _has_surrogate(payload)):
        raise InvalidPayload("The payload holds a NUL or a broken character; send plain Unicode text.")


def _has_surrogate(payload: Mapping[str, Any]) -> bool:
    try:
        json.dumps(payload, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _named(line: Any) -> dict[str, str]:
    key = ".".join(str(part) for part in line["loc"]) or "payload"
    message = "this key is not known" if line["type"] == "extra_forbidden" else str(line["msg"])
    return {"key": clean_text(key, 100), "message": clean_text(message, 200)}


def require_bounds(request: JobRequest, now: datetime) -> None:
    """Check reason, key and time. Raises Invalid naming the part."""
    if len(request.after) > MAX_AFTER:
        raise Invalid(f"A job may wait for at most {MAX_AFTER} others.")
    for name, text, longest in (
        ("reason", request.reason, MAX_REASON),
        ("label", request.label, MAX_LABEL),
        ("idempotency key", request.idempotency_key, MAX_KEY),
    ):
        if len(text) > longest:
            raise Invalid(f"The {name} has {len(text)} characters; at most {longest} are taken.")
        if not text.isprintable():
            raise Invalid(f"The {name} holds a control character; send plain text on one line.")
    if request.scheduled_at is not None:
        _require_time(request.scheduled_at, now)


def _require_time(scheduled_at: datetime, now: datetime) -> None:
    if scheduled_at.tzinfo is None:
        raise Invalid("scheduled_at has no time zone; send for instance 2026-08-13T02:00:00Z.")
    if scheduled_at > now + MAX_DELAY:
        raise Invalid("scheduled_at is more than a year ahead.")
