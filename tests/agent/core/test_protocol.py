import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.exceptions import (
    Altered,
    AnswerOutOfOrder,
    AnswerRefused,
    LineTooLong,
    ProtocolError,
    Stale,
    UnknownKey,
    UnknownVersion,
    Unsigned,
    UnsignedRefusal,
    WrongServer,
)
from agent.protocol import (
    MAX_AGE_MS,
    MAX_AHEAD_MS,
    MAX_LINE_BYTES,
    Answer,
    Request,
    canonical_bytes,
    new_request,
    parse_answer,
    parse_request,
    refuse_unsigned,
    request_id,
    sign,
    sign_answer,
)

KEY = b"k" * 32
KEYS = {"panel-1": KEY}
JOB = "0b5f0e1c-8f5a-4a53-9c3c-0f5f4f7b1a11"
REQUEST = new_request(
    key_id="panel-1",
    server="web1",
    id=f"{JOB}:1:2",
    action="agent.ping",
    arguments={"name": "münchen", "n": 1},
)
ANSWER = Answer(1, REQUEST.id, REQUEST.nonce, 0, "result", {"ok": True})


def parse(line: bytes, now_ms: int = REQUEST.issued_at) -> Request:
    return parse_request(line, KEYS, "web1", now_ms)


def fields_of(line: bytes) -> dict[str, Any]:
    return dict(json.loads(line))


def test_canonical_bytes_are_sorted_spaceless_ascii() -> None:
    assert canonical_bytes({"b": [1, True, None], "a": "é"}) == b'{"a":"\\u00e9","b":[1,true,null]}'


def test_canonical_bytes_refuse_what_json_cannot_carry() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_bytes({"a": float("nan")})


def test_a_signed_request_is_one_line_and_comes_back_equal() -> None:
    line = sign(REQUEST, KEY)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert parse(line) == REQUEST


@pytest.mark.parametrize("key", [name for name in vars(REQUEST) if name not in ("version", "key_id")])
def test_any_altered_field_is_refused(key: str) -> None:
    other = {
        "server": "web2",
        "id": f"{JOB}:2:2",
        "action": "agent.pong",
        "arguments": {"name": "other"},
        "lock": "mutating",
        "deadline_seconds": 61,
        "issued_at": REQUEST.issued_at + 1,
        "nonce": "0" * 32,
    }
    line = json.dumps({**fields_of(sign(REQUEST, KEY)), key: other[key]}).encode()
    with pytest.raises(Altered):
        parse(line)


@pytest.mark.parametrize("mac", ["0" * 64, "é", "\ud800", " ", "x" * 10_000])
def test_a_wrong_signature_is_refused(mac: str) -> None:
    with pytest.raises(Altered):
        parse(json.dumps({**fields_of(sign(REQUEST, KEY)), "mac": mac}).encode())


@pytest.mark.parametrize("mac", ["", None, 7, ["a"]])
def test_a_missing_signature_is_refused(mac: object) -> None:
    with pytest.raises(Unsigned):
        parse(json.dumps({**vars(REQUEST), "mac": mac}).encode())
    with pytest.raises(Unsigned):
        parse(canonical_bytes(vars(REQUEST)))


def test_another_key_is_refused() -> None:
    with pytest.raises(Altered):
        parse(sign(REQUEST, b"o" * 32))
    with pytest.raises(UnknownKey):
        parse(sign(replace(REQUEST, key_id="panel-2"), KEY))


def test_another_server_is_refused() -> None:
    with pytest.raises(WrongServer):
        parse(sign(replace(REQUEST, server="web2"), KEY))


@pytest.mark.parametrize("shift", [-MAX_AHEAD_MS, 0, MAX_AGE_MS])
def test_a_request_is_fresh_up_to_both_limits(shift: int) -> None:
    assert parse(sign(REQUEST, KEY), REQUEST.issued_at + shift) == REQUEST


@pytest.mark.parametrize("shift", [-MAX_AHEAD_MS - 1, MAX_AGE_MS + 1])
def test_a_request_past_a_limit_is_refused_with_both_times(shift: int) -> None:
    request = replace(REQUEST, issued_at=1_786_633_201_000)
    with pytest.raises(
        Stale, match=r"clock skew: issued at 2026-08-13T15:00:01\.000Z, .* time is 2026-08-13T"
    ):
        parse(sign(request, KEY), request.issued_at + shift)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\0" * 10,
        b"not json",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"mac":"a","mac":"b"}',
        b'{"mac":"a","version":NaN}',
        b'{"mac":"a"}',
        b'{"mac":"a","version":' + b"9" * 5000 + b"}",
    ],
)
def test_garbage_is_a_protocol_error(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse(line)


@pytest.mark.parametrize("value", ["[" * 900 + "]" * 900, "1e999", '"\\ud800"'])
def test_odd_json_values_are_a_protocol_error(value: str) -> None:
    line = sign(REQUEST, KEY).replace(b'"n":1', f'"n":{value}'.encode())
    with pytest.raises(ProtocolError):
        parse(line)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "x"),
        ("id", f"{JOB}:1:1\n"),
        ("nonce", "A" * 32),
        ("lock", "all"),
        ("lock", ["none"]),
        ("deadline_seconds", 0),
        ("deadline_seconds", True),
        ("deadline_seconds", 1.5),
        ("issued_at", "now"),
        ("arguments", []),
        ("action", "rm -rf"),
        ("server", ""),
        ("key_id", {"a": 1}),
    ],
)
def test_a_signed_value_of_the_wrong_shape_is_a_protocol_error(key: str, value: Any) -> None:
    with pytest.raises(ProtocolError):
        parse(sign(replace(REQUEST, **{key: value}), KEY))


def test_an_extra_key_is_a_protocol_error_even_if_it_is_not_signed() -> None:
    with pytest.raises(ProtocolError, match="command"):
        parse(json.dumps({**fields_of(sign(REQUEST, KEY)), "command": "ls"}).encode())


def test_another_version_is_refused_by_name() -> None:
    with pytest.raises(UnknownVersion, match="speak version 1"):
        parse(sign(replace(REQUEST, version=2), KEY))


def test_a_line_is_limited_in_both_directions() -> None:
    with pytest.raises(LineTooLong):
        parse(b"x" * (MAX_LINE_BYTES + 1))
    with pytest.raises(LineTooLong):
        sign(replace(REQUEST, arguments={"text": "x" * MAX_LINE_BYTES}), KEY)


def test_a_request_that_could_never_be_accepted_is_not_made() -> None:
    with pytest.raises(ProtocolError):
        new_request(key_id="k", server="s", id="x", action="agent.ping", arguments={})


@given(st.binary(max_size=300))
def test_whatever_bytes_come_only_a_protocol_error_is_raised(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse(line)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([*vars(REQUEST), "mac", "extra"]), _JSON)
def test_whatever_value_comes_a_changed_request_is_never_accepted(key: str, value: object) -> None:
    fields = fields_of(sign(REQUEST, KEY))
    line = json.dumps({**fields, key: value}).encode()
    if fields_of(line) == fields:
        return
    with pytest.raises(ProtocolError):
        parse(line)


def test_request_ids_name_job_claim_and_step() -> None:
    assert request_id(JOB, 3, 1) == f"{JOB}:3:1"
    assert request_id(JOB, 3, "verify") == f"{JOB}:3:verify"
    with pytest.raises(ValueError, match="request id"):
        request_id("7", 1, 1)


def test_a_signed_answer_comes_back_equal() -> None:
    answer = parse_answer(sign_answer(ANSWER, KEY), REQUEST, KEY, 0)
    assert answer == ANSWER
    assert answer.is_final
    assert not replace(ANSWER, kind="progress").is_final


@pytest.mark.parametrize(
    "change", [{"body": {"ok": False}}, {"sequence": 1}, {"kind": "event"}, {"mac": "0"}, {"mac": ""}]
)
def test_an_altered_answer_is_refused(change: dict[str, Any]) -> None:
    line = json.dumps({**fields_of(sign_answer(ANSWER, KEY)), **change}).encode()
    with pytest.raises(AnswerRefused):
        parse_answer(line, REQUEST, KEY)


@pytest.mark.parametrize("change", [{"id": f"{JOB}:1:3"}, {"nonce": "0" * 32}])
def test_an_answer_to_another_request_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(AnswerRefused, match="another request"):
        parse_answer(sign_answer(replace(ANSWER, **change), KEY), REQUEST, KEY)


def test_an_answer_out_of_order_is_refused() -> None:
    with pytest.raises(AnswerOutOfOrder):
        parse_answer(sign_answer(replace(ANSWER, sequence=2), KEY), REQUEST, KEY, 1)


def test_an_unsigned_refusal_is_told_apart_from_an_answer() -> None:
    with pytest.raises(UnsignedRefusal, match=r"\(altered\): no") as caught:
        parse_answer(refuse_unsigned("altered", "no"), REQUEST, KEY)
    assert caught.value.refusal_code == "altered"


@given(st.binary(max_size=200))
def test_garbage_in_place_of_an_answer_is_refused(line: bytes) -> None:
    with pytest.raises(AnswerRefused):
        parse_answer(line, REQUEST, KEY)
