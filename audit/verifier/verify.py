"""Verifies an export of the audit trail. Needs Python and nothing else: no panel, no database, no package.

    python verify.py EXPORT.jsonl --key FILE [--anchor FILE] [--json]

EXPORT.jsonl comes from `hosting-audit export`; the key file and the anchor file are kept outside of the
database. Exit code 0: intact; 1: broken, the first bad entry is named; 2: wrong usage or unusable files.
Without the anchor file a chain that ends too early, or was replaced by an older copy, looks whole.
"""

import argparse
import hashlib
import hmac
import json
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

# Every column but `sequence` is text; the code in `mac` covers all the others.
TEXTS = {
    *("at", "actor", "actor_kind", "tenant", "action", "target", "reason", "result", "data"),
    *("key_id", "previous", "mac"),
}
NOTHING_BEFORE = "0" * 64
SHORTEST_KEY = 32

Keys = dict[str, bytes]
Values = dict[str, Any]


class Broken(Exception):
    """The trail is not what was written: at which entry, of which kind, in a sentence."""

    def __init__(self, sequence: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.found = {"sequence": sequence, "kind": kind, "message": message}


class Unusable(Exception):
    """A file cannot be used; the text says which and why."""


def code_of(label: bytes, values: Values, key: bytes) -> str:
    """Give the code that the panel puts under these values."""
    line = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.new(key, label + line.encode("ascii"), hashlib.sha256).hexdigest()


def lines_of(path: str) -> Iterator[str]:
    """Give the lines of a file."""
    with open(path, encoding="ascii") as file:
        yield from file


def read_keys(path: str) -> Keys:
    """Read `<key id> <hexadecimal key>` lines."""
    keys: Keys = {}
    for number, line in enumerate(map(str.strip, lines_of(path)), start=1):
        if line and not line.startswith("#"):
            key_id, _, digits = line.partition(" ")
            try:
                keys[key_id] = bytes.fromhex(digits)
            except ValueError as error:
                # Never the content: what is malformed may be the key itself.
                raise Unusable(f"{path}, line {number}: not `<key id> <hexadecimal key>`") from error
            if len(keys[key_id]) < SHORTEST_KEY:
                raise Unusable(f"{path}, line {number}: no key id, or the key is too short")
    if not keys:
        raise Unusable(f"{path} holds no key")
    return keys


def read_anchor(path: str, keys: Keys) -> Values:
    """Read the last anchor and examine its signature. A line without its end was never finished."""
    last = deque((line for line in lines_of(path) if line.endswith("\n")), maxlen=1)
    try:
        anchor: Values = json.loads("".join(last))
        signature = str(anchor.pop("signature"))
        expected = code_of(b"chp-audit-anchor-1\n", anchor, keys[anchor["key_id"]])
        anchor = {"sequence": int(anchor["sequence"]), "mac": str(anchor["mac"])}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unusable(f"{path}: the last line is no anchor made with these keys") from error
    if not hmac.compare_digest(signature.encode(), expected.encode()):
        raise Unusable(f"{path}: the last anchor does not fit its signature")
    return anchor


def read_export(path: str) -> Iterator[Any]:
    """Give the entries, then the line {"head": ...} with which every whole export ends."""
    last = None
    for number, line in enumerate(lines_of(path), 1):
        try:
            last = json.loads(line)
        except ValueError as error:
            raise Unusable(f"{path}: line {number} is not JSON") from error
        yield last
    if not is_head(last):
        raise Unusable(f"{path} does not end with the head: the export is not whole")


def is_head(line: object) -> bool:
    """Say whether a line of the export is the one about the head."""
    return isinstance(line, dict) and set(line) == {"head"}


def verify(export: Iterator[Any], keys: Keys, anchor: Values | None) -> tuple[int, str]:
    """Give how many entries there are and the code of the last. Raises Broken at the first bad one."""
    place, previous, head = 0, NOTHING_BEFORE, None
    for row in export:
        if is_head(row):
            head = row["head"]
            break
        place += 1
        check_entry(row, place, previous, keys)
        previous = row["mac"]
        if anchor and anchor["sequence"] == place and anchor["mac"] != previous:
            raise Broken(place, "replaced", f"entry {place} is not the one that the last anchor names")
    if anchor and anchor["sequence"] > place:
        raise Broken(
            place + 1, "cut_off", f"the last anchor names entry {anchor['sequence']}, which is not there"
        )
    for _ in export:
        raise Unusable("the export goes on behind its head")
    check_head(head, place, previous)
    return place, previous


def check_entry(row: Any, place: int, previous: str, keys: Keys) -> None:
    """Raise Broken where this is not the entry that belongs in this place."""
    if not isinstance(row, dict) or set(row) != {"sequence", *TEXTS} or type(row["sequence"]) is not int:
        raise Broken(place, "malformed", f"entry {place} is not as the panel writes it")
    if not all(isinstance(row[name], str) for name in TEXTS) or not row["mac"].isascii():
        raise Broken(place, "malformed", f"a column of entry {place} is not text")
    if row["sequence"] > place:
        raise Broken(place, "missing", f"entry {place} is missing, {row['sequence']} stands there")
    if row["sequence"] < place:
        raise Broken(place, "unexpected", f"entry {row['sequence']} stands where {place} should")
    if row["key_id"] not in keys:
        raise Broken(place, "unknown_key", f"entry {place} names a key that the key file does not hold")
    signed = {name: value for name, value in row.items() if name != "mac"}
    if not hmac.compare_digest(code_of(b"chp-audit-entry-1\n", signed, keys[row["key_id"]]), row["mac"]):
        raise Broken(place, "altered", f"entry {place} was altered, moved or forged")
    if row["previous"] != previous:
        raise Broken(place, "relinked", f"entry {place} does not follow the one before it")


def check_head(head: Any, place: int, previous: str) -> None:
    """Raise Broken where the head does not name the last entry."""
    if head is None:
        if place:
            raise Broken(place, "head_missing", "the row that says where the chain ends is gone")
    elif head["sequence"] > place:
        raise Broken(place + 1, "cut_off", f"the head names entry {head['sequence']}, which is not there")
    elif head["sequence"] < place:
        raise Broken(
            head["sequence"] + 1, "behind_head", "an entry stands behind the end that the head names"
        )
    elif head["mac"] != previous:
        raise Broken(place, "head_altered", "the head does not carry the code of the last entry")


def examine(options: argparse.Namespace) -> Values:
    """Give the report as one plain value."""
    keys = read_keys(options.key)
    anchor = read_anchor(options.anchor, keys) if options.anchor else None
    report: Values = {"intact": True, "anchor": anchor["sequence"] if anchor else None, "problem": None}
    try:
        report["entries"], report["last_mac"] = verify(read_export(options.export), keys, anchor)
    except Broken as broken:
        report.update(intact=False, problem=broken.found)
    return report


def main() -> int:
    """Read the command line, verify, print, and give the exit code."""
    parser = argparse.ArgumentParser(description="Verify an export of the audit trail.")
    parser.add_argument("export", help="file made by hosting-audit export")
    parser.add_argument("--key", required=True, help="the audit key file")
    parser.add_argument("--anchor", help="the anchor file; without it a cut-off end is not noticed")
    parser.add_argument("--json", action="store_true", help="print one JSON value")
    options = parser.parse_args()
    try:
        report = examine(options)
    except (OSError, UnicodeDecodeError, Unusable) as error:
        print(f"Cannot verify: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(report))
    elif report["intact"]:
        print(f"Intact: {report['entries']} entries.")
    else:
        print(f"BROKEN at entry {report['problem']['sequence']}: {report['problem']['message']}")
    return 0 if report["intact"] else 1


if __name__ == "__main__":
    sys.exit(main())
