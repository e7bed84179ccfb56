"""The signed lines between panel and agent: one JSON object a line, HMAC-SHA256 over its canonical bytes.

The one module, with `agent.declarations`, that may be imported from outside of the agent.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from agent.declarations.names import REQUEST_ID
from agent.declarations.schema import Lock
from agent.exceptions import (
    Altered,
    AnswerOutOfOrder,
    AnswerRefused,
    LineTooLong,
    PolicyRefused,
    ProtocolError,
    Stale,
    UnknownKey,
    UnknownVersion,
    Unsigned,
    UnsignedRefusal,
    WrongServer,
)

__all__ = [
    "FINAL_KINDS",
    "KINDS",
    "MAX_LINE_BYTES",
    "VERSION",
    "Altered",
    "Answer",
    "AnswerOutOfOrder",
    "AnswerRefused",
    "LineTooLong",
    "PolicyRefused",
    "ProtocolError",
    "Request",
    "Stale",
    "UnknownKey",
    "UnknownVersion",
    "Unsigned",
    "UnsignedRefusal",
    "WrongServer",
    "canonical_bytes",
    "load_key",
    "new_request",
    "parse_answer",
    "parse_request",
    "request_id",
    "sign",
    "sign_answer",
]

VERSION = 1
MAX_LINE_BYTES = 256 * 1024
MAX_AGE_MS = 300_000
MAX_AHEAD_MS = 60_000
MAX_DEADLINE_SECONDS = 86_400
SHORTEST_KEY_BYTES = 32

KINDS = ("accepted", "progress", "checkpoint", "event", "result", "error")
FINAL_KINDS = ("result", "error")

_ID = re.compile(REQUEST_ID)
_NONCE = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}")


@dataclass(frozen=True)
class Request:
    """One request, without its signature. `issued_at` is Unix milliseconds, `nonce` 32 hex digits."""

    version: int
    key_id: str
    server: str
    id: str
    action: str
    arguments: Mapping[str, Any]
    lock: str
    deadline_seconds: int
    issued_at: int
    nonce: str


@dataclass(frozen=True)
class Answer:
    """One answer, without its signature. `sequence` counts from 0; `result` and `error` are final."""

    version: int
    id: str
    nonce: str
    sequence: int
    kind: str
    body: Mapping[str, Any]

    @property
    def is_final(self) -> bool:
        """Say whether no answer follows this one."""
        return self.kind in FINAL_KINDS


def canonical_bytes(mapping: Mapping[str, Any]) -> bytes:
    """Give the one form that is signed: sorted keys, no spaces, ASCII. Raises ValueError on NaN."""
    text = json.dumps(mapping, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode()


def request_id(job_uuid: object, epoch: int, step: int | str) -> str:
    """Name one step of one claim of a job; step is a number or a short lower-case word."""
    made = f"{job_uuid}:{epoch}:{step}"
    if not _ID.fullmatch(made):
        raise ValueError(f"not a request id: {made[:100]!a}")
    return made


def is_name(text: str) -> bool:
    """Say whether the text can stand for a server, a key or an action in a request."""
    return bool(_NAME.fullmatch(text))


def load_key(path: Path | str) -> bytes:
    """Read a key file: its bytes exactly as they are, 32 at least.

    Raises PolicyRefused, also where it does not belong to the caller or root, or is open to others.
    """
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            key = file.read()
    except OSError as error:
        raise PolicyRefused(f"key file {path}: {error.strerror}") from error
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise PolicyRefused(f"key file {path}: must be its user's own and closed to all others (chmod 0600)")
    if len(key) < SHORTEST_KEY_BYTES:
        raise PolicyRefused(f"key file {path}: shorter than {SHORTEST_KEY_BYTES} bytes")
    return key


def new_request(
    *,
    key_id: str,
    server: str,
    id: str,
    action: str,
    arguments: Mapping[str, Any],
    lock: str = "none",
    deadline_seconds: int = 60,
) -> Request:
    """Make a request of now with a new nonce. Raises ProtocolError where it could never be accepted."""
    request = Request(
        version=VERSION,
        key_id=key_id,
        server=server,
        id=id,
        action=action,
        arguments=dict(arguments),
        lock=str(lock),
        deadline_seconds=deadline_seconds,
        issued_at=time.time_ns() // 1_000_000,
        nonce=secrets.token_hex(16),
    )
    _check_request_shape(vars(request))
    return request


def sign(request: Request, key: bytes) -> bytes:
    """Give the request as one signed line, newline included. Raises LineTooLong."""
    return _signed_line(vars(request), key)


def sign_answer(answer: Answer, key: bytes) -> bytes:
    """Give the answer as one signed line, newline included. Raises LineTooLong."""
    return _signed_line(vars(answer), key)


def refuse_unsigned(code: str, message: str) -> bytes:
    """Give the unsigned line for one whose identity is not proven: nothing can be signed for it."""
    refusal = Answer(VERSION, "", "", 0, "error", {"code": code, "message": message, "retryable": False})
    return canonical_bytes({**vars(refusal), "mac": ""}) + b"\n"


def parse_request(line: bytes, keys: Mapping[str, bytes], server: str, now_ms: int) -> Request:
    """Read, authenticate and judge the freshness of a request line. Raises a ProtocolError."""
    request = authenticate(line, keys)
    check_meant_for(request, server, now_ms)
    return request


def authenticate(line: bytes, keys: Mapping[str, bytes]) -> Request:
    """Read a request line and prove that it was signed with one of the keys. Raises a ProtocolError."""
    fields = _decode(line)
    mac = fields.pop("mac", None)
    if not isinstance(mac, str) or not mac:
        raise Unsigned
    _check_request_shape(fields)
    if fields["key_id"] not in keys:
        raise UnknownKey
    if not _is_signed_with(fields, mac, keys[fields["key_id"]]):
        raise Altered
    return Request(**fields)


def check_meant_for(request: Request, server: str, now_ms: int) -> None:
    """Raise WrongServer or Stale unless an authentic request is for this server and of now."""
    if request.server != server:
        raise WrongServer(f"the request is for server {request.server}, this is {server}")
    if not -MAX_AHEAD_MS <= now_ms - request.issued_at <= MAX_AGE_MS:
        issued, now = _shown_time(request.issued_at), _shown_time(now_ms)
        raise Stale(f"clock skew: issued at {issued}, the agent's time is {now}")


def parse_answer(line: bytes, request: Request, key: bytes, sequence: int | None = None) -> Answer:
    """Read an answer to this request and prove that the holder of the key gave it.

    `sequence`, where given, is the number that must come now (0 for the first). Raises
    UnsignedRefusal (the agent could not tell who asked), AnswerOutOfOrder or another AnswerRefused.
    """
    try:
        fields = _decode(line)
    except ProtocolError as error:
        raise AnswerRefused(str(error)) from error
    mac = fields.pop("mac", None)
    _check_answer_shape(fields)
    if mac == "" and fields["kind"] == "error":
        raise UnsignedRefusal(str(fields["body"].get("code"))[:64], str(fields["body"].get("message"))[:1000])
    if not isinstance(mac, str) or not _is_signed_with(fields, mac, key):
        raise AnswerRefused("the answer's signature does not fit its content")
    if (fields["id"], fields["nonce"]) != (request.id, request.nonce):
        raise AnswerRefused("the answer belongs to another request")
    if sequence is not None and fields["sequence"] != sequence:
        raise AnswerOutOfOrder(f"answer {fields['sequence']} came where {sequence} was due")
    return Answer(**fields)


def _signed_line(fields: Mapping[str, Any], key: bytes) -> bytes:
    mac = hmac.new(key, canonical_bytes(fields), hashlib.sha256).hexdigest()
    line = canonical_bytes({**fields, "mac": mac}) + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise LineTooLong(f"{len(line)} bytes are more than the {MAX_LINE_BYTES} of a line")
    return line


def _is_signed_with(fields: Mapping[str, Any], mac: str, key: bytes) -> bool:
    try:
        signed = canonical_bytes(fields)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("the line has values that JSON cannot carry") from error
    expected = hmac.new(key, signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), mac.encode("utf-8", "surrogatepass"))


def _decode(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise LineTooLong
    try:
        decoded = json.loads(line.decode(), object_pairs_hook=_unique_pairs, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("the line is not one JSON object in UTF-8") from error
    if not isinstance(decoded, dict):
        raise ProtocolError("the line is not a JSON object")
    return decoded


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _check_request_shape(fields: Mapping[str, Any]) -> None:
    _check_keys(fields, Request)
    _check(fields, "key_id", _is_text(fields["key_id"], _NAME))
    _check(fields, "server", _is_text(fields["server"], _NAME))
    _check(fields, "id", _is_text(fields["id"], _ID))
    _check(fields, "action", _is_text(fields["action"], _NAME))
    _check(fields, "arguments", isinstance(fields["arguments"], Mapping))
    _check(fields, "lock", fields["lock"] in tuple(Lock))
    _check(fields, "deadline_seconds", _is_whole(fields["deadline_seconds"], 1, MAX_DEADLINE_SECONDS))
    _check(fields, "issued_at", _is_whole(fields["issued_at"], 0, 2**53))
    _check(fields, "nonce", _is_text(fields["nonce"], _NONCE))


def _check_answer_shape(fields: Mapping[str, Any]) -> None:
    try:
        _check_keys(fields, Answer)
        _check(fields, "id", isinstance(fields["id"], str))
        _check(fields, "nonce", isinstance(fields["nonce"], str))
        _check(fields, "sequence", _is_whole(fields["sequence"], 0, 2**53))
        _check(fields, "kind", fields["kind"] in KINDS)
        _check(fields, "body", isinstance(fields["body"], dict))
    except ProtocolError as error:
        raise AnswerRefused(f"not an answer of this protocol: {error}") from error


def _check_keys(fields: Mapping[str, Any], shape: type) -> None:
    if set(fields) != set(shape.__annotations__):
        differing = sorted(set(fields) ^ set(shape.__annotations__))
        raise ProtocolError(f"missing or unknown key: {ascii(differing[0])[:80]}")
    if type(fields["version"]) is not int or fields["version"] != VERSION:
        raise UnknownVersion(
            f"version {ascii(fields['version'])[:20]} is not understood, speak version {VERSION}"
        )


def _check(fields: Mapping[str, Any], key: str, fits: bool) -> None:
    if not fits:
        raise ProtocolError(f"{key}: not a value this protocol knows")


def _is_text(value: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and bool(pattern.fullmatch(value))


def _is_whole(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _shown_time(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    try:
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03d}Z"
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"
