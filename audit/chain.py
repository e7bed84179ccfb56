"""The chain: how an entry becomes one line of bytes, how that line is signed, how a chain is verified. Pure.

`audit/verifier/verify.py` holds the same rules once more, on purpose: it must need nothing of the panel.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

GENESIS = "0" * 64
# What the code covers. `sequence` is an integer, the others are text.
SIGNED = (
    "sequence",
    "at",
    "actor",
    "actor_kind",
    "tenant",
    "action",
    "target",
    "reason",
    "result",
    "data",
    "key_id",
    "previous",
)
COLUMNS = (*SIGNED, "mac")
_ENTRY = b"chp-audit-entry-1\n"

Row = Mapping[str, object]
Keys = Mapping[str, bytes]


@dataclass(frozen=True)
class Mark:
    """What something outside the entries says: entry `sequence` carries `mac`. 0 is an empty chain."""

    sequence: int
    mac: str


@dataclass(frozen=True)
class Problem:
    """The first thing that is wrong: at which entry, of which kind, in a sentence."""

    sequence: int
    kind: str
    message: str


@dataclass(frozen=True)
class Verdict:
    """What a verification found: how many entries are good, from the first on, and what is wrong then."""

    entries: int
    last_mac: str
    problem: Problem | None = None


def canonical(row: Row) -> bytes:
    """Give the one line of bytes that an entry's code covers."""
    signed = {name: row[name] for name in SIGNED}
    return json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def mac_of(row: Row, key: bytes) -> str:
    """Give the code of an entry, 64 hexadecimal digits."""
    return hmac.new(key, _ENTRY + canonical(row), hashlib.sha256).hexdigest()


def verify(rows: Iterable[Row], keys: Keys, anchor: Mark | None = None) -> Verdict:
    """Go through the entries in their order; stop at the first problem.

    `rows` are mappings with COLUMNS, ordered by sequence, from the very first entry on. `anchor` is the last
    one written outside of the database.
    """
    done, previous = 0, GENESIS
    for row in rows:
        problem = _examine(row, done + 1, previous, keys)
        if problem is None and anchor is not None and anchor.sequence == done + 1:
            problem = _replaced(anchor, str(row["mac"]))
        if problem is not None:
            return Verdict(done, previous, problem)
        done, previous = done + 1, str(row["mac"])
    if anchor is not None and anchor.sequence > done:
        return Verdict(done, previous, _cut_off(done, "last anchor", anchor))
    return Verdict(done, previous)


def verify_end(verdict: Verdict, head: Mark | None) -> Verdict:
    """Compare where a good chain ends with the head, as both stood at the same moment."""
    if verdict.problem is not None:
        return verdict
    return replace(verdict, problem=_wrong_end(verdict, head))


def _examine(row: Row, place: int, previous: str, keys: Keys) -> Problem | None:
    malformed = _malformed(row)
    if malformed:
        return Problem(place, "malformed", f"Entry {place} is not as the panel writes it: {malformed}.")
    sequence = row["sequence"]
    if sequence != place:
        return _misplaced(sequence, place)
    key = keys.get(str(row["key_id"]))
    if key is None:
        message = f"Entry {place} names the key {row['key_id']!r:.60}, which the key file does not hold."
        return Problem(place, "unknown_key", message)
    if not hmac.compare_digest(mac_of(row, key), str(row["mac"])):
        return Problem(
            place, "altered", f"Entry {place} was altered, moved or forged: its code does not fit it."
        )
    if row["previous"] != previous:
        message = f"Entry {place} does not follow the entry before it: one of another chain stands here."
        return Problem(place, "relinked", message)
    return None


def _malformed(row: Row) -> str:
    if set(row) != set(COLUMNS):
        return "it has not the columns of an entry"
    if type(row["sequence"]) is not int:
        return f"its sequence is {row['sequence']!r:.60}, not a whole number"
    wrong = [name for name in COLUMNS[1:] if not isinstance(row[name], str)]
    if wrong:
        return f"its {wrong[0]} is not text"
    return "" if str(row["mac"]).isascii() else "its code is not hexadecimal"


def _misplaced(sequence: object, place: int) -> Problem:
    if isinstance(sequence, int) and sequence > place:
        until = f" to {sequence - 1}" if sequence - 1 > place else ""
        return Problem(place, "missing", f"Entry {place}{until} is missing: {sequence} stands in its place.")
    return Problem(place, "unexpected", f"Where entry {place} should stand, {sequence} stands once more.")


def _replaced(anchor: Mark, mac: str) -> Problem | None:
    if hmac.compare_digest(anchor.mac.encode(), mac.encode()):
        return None
    message = f"Entry {anchor.sequence} is not the one that the last anchor names: the chain was replaced."
    return Problem(anchor.sequence, "replaced", message)


def _cut_off(done: int, source: str, mark: Mark) -> Problem:
    return Problem(
        done + 1,
        "cut_off",
        f"The chain ends at entry {done}, but the {source} names entry {mark.sequence}: "
        "the end was cut off, or an older database was put in place.",
    )


def _wrong_end(verdict: Verdict, head: Mark | None) -> Problem | None:
    done = verdict.entries
    if head is None:
        missing = Problem(done, "head_missing", "The row that says where the chain ends is gone.")
        return missing if done else None
    if head.sequence > done:
        return _cut_off(done, "head", head)
    if head.sequence < done:
        message = f"Entry {head.sequence + 1} stands behind the end of the chain that the head names."
        return Problem(head.sequence + 1, "behind_head", message)
    if head.mac != verdict.last_mac:
        return Problem(done, "head_altered", f"The head does not carry the code of the last entry, {done}.")
    return None
