"""The anchor file: signed lines outside of the database that never go backwards unnoticed."""

import json
from pathlib import Path

import pytest
from django.db import transaction

from audit import keys
from audit.anchor import last_anchor, start_over, write_anchor
from audit.exceptions import AnchorRefused
from audit.models import AuditEntry, AuditHead
from audit.verification import verify_trail
from tests.audit.builders import write

pytestmark = pytest.mark.django_db


@pytest.fixture
def anchor_file(trail_files: Path) -> Path:
    return trail_files / "anchors" / "audit.jsonl"


def cut_to(sequence: int) -> None:
    """Do what an attacker with the database does: remove the end and set the head to what remains."""
    AuditEntry.objects.filter(sequence__gt=sequence).delete()
    mac = AuditEntry.objects.get(sequence=sequence).mac
    AuditHead.objects.update(sequence=sequence, mac=mac)


def test_anchor_names_the_chains_end(anchor_file: Path) -> None:
    last = write(3)[-1]
    anchor = write_anchor()
    assert (anchor.sequence, anchor.mac) == (3, last.mac)
    assert last_anchor() == anchor
    assert json.loads(anchor_file.read_text())["sequence"] == 3


def test_file_and_folder_are_the_owners_alone(anchor_file: Path) -> None:
    write_anchor()
    assert anchor_file.stat().st_mode & 0o777 == 0o600
    assert anchor_file.parent.stat().st_mode & 0o777 == 0o700


def test_without_news_no_line_is_added(anchor_file: Path) -> None:
    write(1)
    assert write_anchor() == write_anchor()
    assert len(anchor_file.read_text().splitlines()) == 1


def test_lines_are_added_and_the_last_counts(anchor_file: Path) -> None:
    write(1)
    write_anchor()
    write(1)
    assert write_anchor().sequence == 2
    assert [json.loads(line)["sequence"] for line in anchor_file.read_text().splitlines()] == [1, 2]
    assert verify_trail().anchor == last_anchor()


def test_shorter_chain_is_refused_and_nothing_written(anchor_file: Path) -> None:
    write(5)
    write_anchor()
    before = anchor_file.read_bytes()
    cut_to(3)
    with pytest.raises(AnchorRefused, match="entry 5"):
        write_anchor()
    assert anchor_file.read_bytes() == before


def test_other_chain_that_has_grown_past_the_anchor_is_refused() -> None:
    write(5)
    write_anchor()
    cut_to(3)
    write(9)
    with pytest.raises(AnchorRefused, match="entry 5"):
        write_anchor()
    problem = verify_trail().verdict.problem
    assert problem is not None
    assert (problem.sequence, problem.kind) == (5, "replaced")


def test_line_that_a_crash_left_unfinished_is_passed_over(anchor_file: Path) -> None:
    write(1)
    first = write_anchor()
    with anchor_file.open("a") as file:
        file.write('{"sequence": 2, "ma')
    assert last_anchor() == first
    write(1)
    assert last_anchor() == first
    second = write_anchor()
    assert last_anchor() == second
    assert second.sequence == 2


@pytest.mark.parametrize(
    "changed",
    [{"sequence": 0}, {"mac": "0" * 64}, {"at": "2020-01-01T00:00:00.000000Z"}, {"signature": "0" * 64}],
)
def test_altered_anchor_is_refused(anchor_file: Path, changed: dict[str, object]) -> None:
    write(2)
    write_anchor()
    anchor_file.write_text(json.dumps({**json.loads(anchor_file.read_text()), **changed}) + "\n")
    with pytest.raises(AnchorRefused, match="signature"):
        verify_trail()


@pytest.mark.parametrize("line", ["{}", "[]", "text", '{"sequence": 1}', "\x00", '{"signature": null}'])
def test_line_that_is_no_anchor_is_refused(anchor_file: Path, line: str) -> None:
    write_anchor()
    anchor_file.write_text(line + "\n")
    with pytest.raises(AnchorRefused, match="no anchor"):
        write_anchor()


def test_anchor_of_another_installation_is_refused(anchor_file: Path, trail_files: Path) -> None:
    write_anchor()
    (trail_files / "audit.key").unlink()
    keys.create(trail_files / "audit.key")
    with pytest.raises(AnchorRefused, match="signature"):
        last_anchor()


def test_what_is_not_committed_is_never_anchored() -> None:
    with transaction.atomic(), pytest.raises(AnchorRefused, match="committed"):
        write_anchor()


def test_starting_over_keeps_the_old_file(anchor_file: Path) -> None:
    write(5)
    write_anchor()
    old = anchor_file.read_bytes()
    cut_to(3)
    aside = start_over()
    assert aside is not None
    assert aside.read_bytes() == old
    assert last_anchor() is None
    assert write_anchor().sequence == 3


def test_starting_over_without_a_file_is_nothing() -> None:
    assert start_over() is None
