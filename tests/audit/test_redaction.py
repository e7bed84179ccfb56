"""The door for text from outside: what leaves it is short, storable, visible and without secrets."""

import json
import math
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from audit import masking
from audit.plain_data import DATA_LIMIT, _Walk
from audit.redaction import clean_data, clean_text, mask_secrets, register_secret
from tests.vectors import HOSTILE_TEXTS, NUMBERS, TEN_MEGABYTES

SECRET = 'c0rrect"horse/battery ünder+staple'


class Hostile:
    """An object whose every question about itself goes wrong."""

    def __str__(self) -> str:
        raise ValueError("no text for you")

    __repr__ = __str__

    def __hash__(self) -> int:
        return 1


class NoString:
    def __str__(self) -> str:
        return 7


class Liar(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError

    def __getitem__(self, key: object) -> str:
        raise RuntimeError


class Endless(list):
    def __iter__(self) -> Iterator[int]:
        while True:
            yield 1

    def __len__(self) -> int:
        raise OSError


class BrokenDict(dict):
    def items(self) -> object:
        raise KeyError("items")


class NoClass:
    @property
    def __class__(self) -> type:
        raise RuntimeError


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> str:
    """Have SECRET known for the length of a test."""
    monkeypatch.setattr(masking, "_registered", set())
    monkeypatch.setattr(masking, "_values", None)
    register_secret(SECRET)
    return SECRET


def storable(text: str) -> bool:
    return "\x00" not in text and text.encode("utf-8") is not None


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_hostile_text_is_storable_and_shows_no_control_character(text: str) -> None:
    cleaned = clean_text(text)
    assert storable(cleaned)
    assert not any(ord(character) < 32 and character not in "\n\t" for character in cleaned)
    assert not any(mark in cleaned for mark in "\x7f\x9b\u2028\u202e\ufffe")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain ünicode 😀\n\ttext", "plain ünicode 😀\n\ttext"),
        ("before\x00after", "before\\x00after"),
        ("\ud800", "\\ud800"),
        ("one\r\ntwo", "one\ntwo"),
        ("100%\rdone", "100%\\x0ddone"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("a\x1b[3\x1b[1m1mb", "a31mb"),
        ("a\u202eb", "a\\u202eb"),
        (b"caf\xc3\xa9 \xff", "café \\xff"),
        (memoryview(b"view"), "view"),
        (None, "None"),
        (7, "7"),
    ],
)
def test_text_is_made_visible(text: object, cleaned: str) -> None:
    assert clean_text(text) == cleaned


@pytest.mark.parametrize(
    "value", [Hostile(), NoString(), 10**10_000], ids=["raises", "gives no text", "long number"]
)
def test_what_has_no_text_is_said_to_be_unprintable(value: object) -> None:
    assert clean_text(value) == "[unprintable]"


def test_object_that_hides_its_class_is_said_to_be_unprintable() -> None:
    assert clean_text(NoClass()) == "[unprintable]"
    assert clean_data([NoClass(), 1]) == ["[unprintable]", 1]


def test_subclass_of_str_cannot_interfere() -> None:
    assert clean_text(Liar("quiet")) == "quiet"


def test_long_text_is_cut_at_the_limit_and_says_so() -> None:
    cleaned = clean_text(TEN_MEGABYTES, 100)
    assert len(cleaned) <= 100
    assert cleaned.endswith("of 10000000 characters]")
    kept = cleaned.index("\n")
    assert f"[cut: {10_000_000 - kept} of" in cleaned


def test_text_of_the_limit_is_not_cut() -> None:
    assert clean_text("x" * 100, 100) == "x" * 100


@pytest.mark.parametrize("limit", [0, 1, 5, -3])
def test_tiny_limits_are_kept(limit: int) -> None:
    assert len(clean_text("abcdefghij", limit)) <= max(limit, 0)


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2x",
        "PASSWORD = hunter2x",
        "PGPASSWORD=hunter2x psql",
        "db_password: hunter2x",
        '{"password": "hunter2x", "a": 1}',
        "{'api_key': 'hunter2x'}",
        '{"text": "{\\"secret\\": \\"hunter2x\\"}"}',
        '"password": "a\\"hunter2x"',
        "--password hunter2x --host a",
        "--password=hunter2x",
        "token=hunter2x&next=/",
        "X-Api-Key: hunter2x",
        "Authorization: Bearer hunter2xhunter2x",
        "authorization: Basic aHVudGVyMng6aHVudGVyMng=",
        '{"Authorization": "Token hunter2x"}',
        "curl -H 'Authorization: hunter2x'",
        "Cookie: chp_session=hunter2x; other=1",
        "got bearer hunter2xhunter2x",
        "postgres://chp:hunter2x@db/chp",
        "postgres://chp:hunter2x@x@db/chp",
        "redis://:hunter2x@cache",
        "CREATE USER a IDENTIFIED BY 'hunter2x'",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2x\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nhunter2x",
    ],
)
def test_secret_is_masked_by_its_shape(text: str) -> None:
    masked = mask_secrets(text)
    assert "hunter2x" not in masked
    assert "aHVudGVyMng6" not in masked
    assert "***" in masked
    assert mask_secrets(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "5 tokens left",
        "the bypass: yes",
        "http://example.com:8080/path?to=me@example.com",
        "compass=north",
        "see passenger=3",
        "a basic authentication scheme",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert mask_secrets(text) == text


@pytest.mark.parametrize(
    "spelled",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        "c0rrect%22horse%2Fbattery%20%C3%BCnder%2Bstaple",
        SECRET.encode().hex(),
        "YzBycmVjdCJob3JzZS9iYXR0ZXJ5IMO8bmRlcitzdGFwbGU=",
    ],
)
def test_registered_secret_is_masked_in_every_spelling(registered: str, spelled: str) -> None:
    assert clean_text(f"before {spelled} after") == "before *** after"


def test_registered_secret_that_straddles_the_limit_is_masked_whole(registered: str) -> None:
    pieces = {SECRET[start : start + 6] for start in range(len(SECRET) - 5)}
    for limit in range(40, 160):
        cleaned = clean_text("x" * 80 + SECRET + "y" * 100, limit)
        assert not any(piece in cleaned for piece in pieces)


def test_registered_secret_behind_an_escape_sequence_is_masked(registered: str) -> None:
    assert SECRET not in clean_text(f"{SECRET[:5]}\x1b[0m{SECRET[5:]}")


def test_short_values_are_not_registered(registered: str) -> None:
    register_secret("the")
    assert mask_secrets("the end") == "the end"


def test_binary_secret_is_masked_in_hexadecimal(registered: str) -> None:
    register_secret(bytes(range(200, 232)))
    assert mask_secrets(f"key {bytes(range(200, 232)).hex()}") == "key ***"


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ({"a": [1, 2.5, True, None, "x"]}, {"a": [1, 2.5, True, None, "x"]}),
        (math.nan, "nan"),
        ([math.inf, -math.inf], ["inf", "-inf"]),
        (b"\xff\x00", "\\xff\\x00"),
        ((1, 2), [1, 2]),
        ({3}, [3]),
        (2**63, "0x8000000000000000"),
        (2**63 - 1, 2**63 - 1),
        ({1: "a", "1": "b", None: "c"}, {"1": "a", "1~": "b", "None": "c"}),
        ({"password": ["hunter2x"], "user": "bob"}, {"password": "***", "user": "bob"}),
        (
            {"db_password": 123456, "tokens": 5, "has_password": True},
            {"db_password": "***", "tokens": 5, "has_password": True},
        ),
        (Hostile(), "[unprintable]"),
        ([Hostile(), 1], ["[unprintable]", 1]),
        ({Hostile(): 1}, {"[unprintable]": 1}),
        (BrokenDict(a=1), {"[cut]": "1 more"}),
    ],
)
def test_data_becomes_plain(value: object, cleaned: object) -> None:
    assert clean_data(value) == cleaned


def test_deep_data_is_cut() -> None:
    deep: object = "bottom"
    for _ in range(1_000):
        deep = [deep]
    assert "[too deep]" in json.dumps(clean_data(deep))


def test_data_that_contains_itself_is_cut() -> None:
    around: list[object] = []
    around.append(around)
    assert len(json.dumps(clean_data(around))) < 1_000


@pytest.mark.parametrize(
    "value", [list(range(10**6)), {str(n): n for n in range(10**5)}, Endless(), [TEN_MEGABYTES] * 20]
)
def test_huge_data_is_cut_to_its_size(value: object) -> None:
    cleaned = json.dumps(clean_data(value, 2_000))
    assert len(cleaned) <= 2_000
    assert value.__class__ is Endless or "cut" in cleaned


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_survive_as_json(number: float) -> None:
    json.dumps(clean_data({"n": number}), allow_nan=False)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(alphabet=st.characters(), max_size=60)
    | st.text(alphabet="\ud800\udfff\x00\x1b[m]\\\"' pasword=:/@", max_size=60)
    | st.binary(max_size=60)
    | st.builds(Hostile),
    lambda inner: (
        st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=9) | st.integers(), inner, max_size=8)
    ),
    max_leaves=40,
)


def _texts(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, inner in data.items():
            yield from (key, *_texts(inner))
    elif isinstance(data, list):
        for inner in data:
            yield from _texts(inner)


@given(ANYTHING, st.integers(min_value=80, max_value=3_000))
@example(b"\\u0000", 80)
@settings(max_examples=250, deadline=None)
def test_any_data_becomes_json_of_its_size(value: object, limit: int) -> None:
    written = json.dumps(clean_data(value, limit), allow_nan=False)
    assert len(written) <= limit
    assert not any("\0" in text for text in _texts(json.loads(written)))
    assert storable(json.dumps(json.loads(written), ensure_ascii=False))


@given(ANYTHING, st.integers(min_value=-1, max_value=300))
@settings(max_examples=250, deadline=None)
def test_any_value_becomes_text_of_its_length(value: object, limit: int) -> None:
    cleaned = clean_text(value, limit)
    assert len(cleaned) <= max(limit, 0)
    assert storable(cleaned)


@given(st.text(max_size=50), st.text(max_size=50), st.integers(min_value=1, max_value=200))
@settings(max_examples=100, deadline=None)
def test_registered_secret_never_comes_out(before: str, after: str, limit: int) -> None:
    register_secret(SECRET)
    assert SECRET not in clean_text(before + SECRET + after, limit)
    assert SECRET not in json.dumps(clean_data({before: [SECRET, after]}), ensure_ascii=False)


@given(
    st.dictionaries(
        st.sampled_from(["worker", "place", "from", "to", "password", "api_key", "a b", "é", "x" * 120]),
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=120) | st.floats(),
        max_size=14,
    )
)
def test_a_short_record_is_cleaned_as_any_other_data(record: dict[str, object]) -> None:
    """The short way and the walk give the same."""
    assert repr(clean_data(record)) == repr(_Walk(DATA_LIMIT).item(record, 0))
