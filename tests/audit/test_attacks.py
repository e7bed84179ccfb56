"""Attacks by SQL on the real table: the panel and the stand-alone program find each, at the same entry.

The attacker writes the database as it pleases, and holds neither the key file nor the anchor file.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.db import connection

from audit.anchor import write_anchor
from audit.chain import COLUMNS, GENESIS, mac_of
from audit.models import AuditEntry
from audit.verification import verify_trail
from tests.audit.builders import write

pytestmark = pytest.mark.django_db

VERIFIER = Path(django_settings.BASE_DIR) / "audit" / "verifier" / "verify.py"
LENGTH = 12
ANCHORED = 10
FORGERS_KEY = b"forged" * 8


def sql(statement: str, *values: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def edit(column: str, value: str) -> Callable[[], None]:
    return lambda: sql(f"UPDATE audit_auditentry SET {column} = %s WHERE sequence = 6", value)


def set_head(sequence: int) -> None:
    mac = AuditEntry.objects.get(sequence=sequence).mac if sequence else GENESIS
    sql("UPDATE audit_audithead SET sequence = %s, mac = %s", sequence, mac)


def delete(condition: str) -> Callable[[], None]:
    return lambda: sql(f"DELETE FROM audit_auditentry WHERE {condition}")


def cut_and_hide(sequence: int) -> Callable[[], None]:
    def attack() -> None:
        sql("DELETE FROM audit_auditentry WHERE sequence > %s", sequence)
        set_head(sequence)

    return attack


def forge_edit() -> None:
    """Edit an entry and sign it and all that follow with a key of the forger's own."""
    previous = AuditEntry.objects.get(sequence=5).mac
    for row in AuditEntry.objects.filter(sequence__gte=6).order_by("sequence").values(*COLUMNS):
        row.update(actor="nobody", previous=previous)
        previous = mac_of(row, FORGERS_KEY)
        AuditEntry.objects.filter(pk=row["sequence"]).update(
            actor="nobody", previous=row["previous"], mac=previous
        )
    set_head(LENGTH)


def move_up(first: int) -> None:
    for sequence in range(LENGTH, first - 1, -1):
        sql("UPDATE audit_auditentry SET sequence = %s WHERE sequence = %s", sequence + 1, sequence)


def insert_copy(sequence: int, of: int) -> None:
    columns = ", ".join(COLUMNS[1:])
    copy = f"INSERT INTO audit_auditentry (sequence, {columns}) SELECT %s, {columns} FROM audit_auditentry "
    sql(copy + "WHERE sequence = %s", sequence, of)


def insert_in_the_middle() -> None:
    move_up(6)
    insert_copy(6, 5)
    set_head(LENGTH + 1)


def insert_at_the_end() -> None:
    insert_copy(LENGTH + 1, LENGTH)
    set_head(LENGTH + 1)


def swap() -> None:
    for old, new in ((6, 99), (7, 6), (99, 7)):
        sql("UPDATE audit_auditentry SET sequence = %s WHERE sequence = %s", new, old)


def close_the_gap() -> None:
    sql("DELETE FROM audit_auditentry WHERE sequence = 6")
    for sequence in range(7, LENGTH + 1):
        sql("UPDATE audit_auditentry SET sequence = %s WHERE sequence = %s", sequence - 1, sequence)
    set_head(LENGTH - 1)


def cut_the_start_and_renumber() -> None:
    sql("DELETE FROM audit_auditentry WHERE sequence <= 5")
    for sequence in range(6, LENGTH + 1):
        sql("UPDATE audit_auditentry SET sequence = %s WHERE sequence = %s", sequence - 5, sequence)
    sql("UPDATE audit_auditentry SET previous = %s WHERE sequence = 1", GENESIS)
    set_head(LENGTH - 5)


def replace_all() -> None:
    """Put a chain in the place of ours that is whole but for its key."""
    rows = list(AuditEntry.objects.order_by("sequence").values(*COLUMNS))
    sql("DELETE FROM audit_auditentry")
    previous = GENESIS
    for row in rows:
        row.update(reason="all is well", previous=previous)
        row["mac"] = previous = mac_of(row, FORGERS_KEY)
        AuditEntry.objects.create(**row)
    set_head(LENGTH)


def empty() -> None:
    sql("DELETE FROM audit_auditentry")
    set_head(0)


def restore_old_and_go_on() -> None:
    """Put an older state in place and let the panel write on, past the anchor."""
    cut_and_hide(8)()
    write(6, reason="after the restore")


ATTACKS: dict[str, tuple[Callable[[], None], int, str]] = {
    **{
        f"edit {column} to {value[:20]!r}": (edit(column, value), 6, "altered")
        for column, value in [
            ("at", "2020-01-01T00:00:00.000000Z"),
            ("actor", "mallory"),
            ("actor_kind", "STAFF"),
            ("tenant", "other"),
            ("action", "logout"),
            ("target", "JOB-000007"),
            ("reason", "none"),
            ("result", "fine"),
            ("data", '{"n": 6}'),
            ("previous", "0" * 64),
            ("mac", "0" * 64),
            ("mac", ""),
            ("at", "not a time"),
        ]
    },
    "edit the key's name": (edit("key_id", "k9"), 6, "unknown_key"),
    "edit and sign with another key": (forge_edit, 6, "altered"),
    "delete one": (delete("sequence = 6"), 6, "missing"),
    "delete several": (delete("sequence BETWEEN 6 AND 9"), 6, "missing"),
    "delete one and close the gap": (close_the_gap, 6, "altered"),
    "insert in the middle": (insert_in_the_middle, 6, "altered"),
    "insert at the end": (insert_at_the_end, LENGTH + 1, "altered"),
    "insert behind the head": (lambda: insert_copy(LENGTH + 1, LENGTH), LENGTH + 1, "altered"),
    "insert before the start": (lambda: insert_copy(0, 1), 1, "unexpected"),
    "swap two": (swap, 6, "altered"),
    "cut the start": (delete("sequence <= 5"), 1, "missing"),
    "cut the start and renumber": (cut_the_start_and_renumber, 1, "altered"),
    "cut the end": (delete("sequence > 11"), 12, "cut_off"),
    "cut the end beyond the anchor": (delete("sequence > 7"), 8, "cut_off"),
    "cut the end and set the head": (cut_and_hide(7), 8, "cut_off"),
    "replace the whole table": (replace_all, 1, "altered"),
    "empty the table": (delete("1 = 1"), 1, "cut_off"),
    "empty the table and set the head": (empty, 1, "cut_off"),
    "restore an old database": (cut_and_hide(9), 10, "cut_off"),
    "restore an old database and go on": (restore_old_and_go_on, 10, "replaced"),
    "set the head back": (lambda: set_head(11), 12, "behind_head"),
    "set the head forward": (lambda: sql("UPDATE audit_audithead SET sequence = 99"), 13, "cut_off"),
    "alter the head": (lambda: sql("UPDATE audit_audithead SET mac = %s", "f" * 64), 12, "head_altered"),
    "delete the head": (lambda: sql("DELETE FROM audit_audithead"), 12, "head_missing"),
}


def stand_alone(export: Path, files: Path, *more: str) -> tuple[int, dict[str, object]]:
    """Run the program in an interpreter that sees neither our code nor any package."""
    command = [
        sys.executable,
        "-I",
        "-S",
        str(VERIFIER),
        str(export),
        "--key",
        str(files / "audit.key"),
        "--json",
        *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    return done.returncode, json.loads(done.stdout) if done.stdout else {"error": done.stderr}


def export_to(path: Path) -> Path:
    call_command("hosting_audit", "export", "--output", str(path))
    return path


@pytest.fixture
def anchored(trail_files: Path) -> tuple[str, str]:
    """Write LENGTH entries, ANCHORED of them anchored; give the verifier's arguments for the anchor."""
    write(ANCHORED, reason="as it was", data={"n": 1})
    write_anchor()
    write(LENGTH - ANCHORED, reason="as it was")
    return "--anchor", str(trail_files / "anchors" / "audit.jsonl")


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_found_by_both_at_the_same_entry(
    name: str, anchored: tuple[str, str], trail_files: Path
) -> None:
    attack, sequence, kind = ATTACKS[name]
    attack()
    problem = verify_trail().verdict.problem
    assert problem is not None
    assert (problem.sequence, problem.kind) == (sequence, kind)
    code, report = stand_alone(export_to(trail_files / "export.jsonl"), trail_files, *anchored)
    found = report["problem"]
    assert code == 1
    assert (found["sequence"], found["kind"]) == (sequence, kind)


def test_untouched_trail_is_intact_for_both(anchored: tuple[str, str], trail_files: Path) -> None:
    verdict = verify_trail().verdict
    code, report = stand_alone(export_to(trail_files / "export.jsonl"), trail_files, *anchored)
    assert code == 0
    assert verdict.problem is None
    assert report == {
        "intact": True,
        "entries": LENGTH,
        "last_mac": verdict.last_mac,
        "anchor": ANCHORED,
        "problem": None,
    }


def test_empty_trail_is_intact_for_both(trail_files: Path) -> None:
    code, report = stand_alone(export_to(trail_files / "export.jsonl"), trail_files)
    assert (code, report["entries"]) == (0, 0)
    assert verify_trail().verdict.problem is None


def test_without_the_anchor_a_hidden_cut_looks_whole(anchored: tuple[str, str], trail_files: Path) -> None:
    cut_and_hide(7)()
    code, report = stand_alone(export_to(trail_files / "export.jsonl"), trail_files)
    assert (code, report["entries"]) == (0, 7)


def test_with_another_key_nothing_verifies(anchored: tuple[str, str], trail_files: Path) -> None:
    other = trail_files / "other"
    other.mkdir()
    (other / "audit.key").write_text(f"audit-1 {'ab' * 31}cd\n")
    code, report = stand_alone(export_to(trail_files / "export.jsonl"), other)
    assert (code, report["problem"]["sequence"]) == (1, 1)


@pytest.mark.parametrize("spoil", ["cut", "no head", "behind", "not JSON", "empty"])
def test_export_that_is_not_whole_is_unusable(
    anchored: tuple[str, str], trail_files: Path, spoil: str
) -> None:
    export = export_to(trail_files / "export.jsonl")
    lines = export.read_text().splitlines(keepends=True)
    spoiled = {
        "cut": "".join(lines)[:-20],
        "no head": "".join(lines[:-1]),
        "behind": "".join([*lines, lines[0]]),
        "not JSON": "".join([*lines[:5], "x\n", *lines[5:]]),
        "empty": "",
    }
    export.write_text(spoiled[spoil])
    code, _ = stand_alone(export, trail_files)
    assert code == 2


@pytest.mark.parametrize("option", ["--anchor", "--key"])
def test_missing_file_is_wrong_usage(anchored: tuple[str, str], trail_files: Path, option: str) -> None:
    export = export_to(trail_files / "export.jsonl")
    code, report = stand_alone(export, trail_files, option, str(trail_files / "none"))
    assert code == 2
    assert "none" in report["error"]


def test_altered_anchor_is_unusable(anchored: tuple[str, str], trail_files: Path) -> None:
    anchor = Path(anchored[1])
    anchor.write_text(anchor.read_text().replace('"sequence":10', '"sequence":1'))
    code, report = stand_alone(export_to(trail_files / "export.jsonl"), trail_files, *anchored)
    assert code == 2
    assert "signature" in report["error"]


def test_unfinished_anchor_line_is_passed_over(anchored: tuple[str, str], trail_files: Path) -> None:
    with Path(anchored[1]).open("a") as file:
        file.write('{"sequence": 99')
    code, report = stand_alone(export_to(trail_files / "export.jsonl"), trail_files, *anchored)
    assert (code, report["anchor"]) == (0, ANCHORED)


def test_value_of_another_type_is_found_by_both(anchored: tuple[str, str], trail_files: Path) -> None:
    sql("UPDATE audit_auditentry SET reason = %s WHERE sequence = 6", b"\xff\x00")
    # SQLite keeps the bytes as they are, PostgreSQL makes a text of them.
    expected = (6, "malformed" if connection.vendor == "sqlite" else "altered")
    problem = verify_trail().verdict.problem
    assert problem is not None
    assert (problem.sequence, problem.kind) == expected
    _, report = stand_alone(export_to(trail_files / "export.jsonl"), trail_files, *anchored)
    assert (report["problem"]["sequence"], report["problem"]["kind"]) == expected
