"""hosting-audit: what it prints, and the exit codes 0 intact, 1 broken, 2 usage or configuration."""

import json
import sqlite3
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import CommandError

from audit.anchor import last_anchor, write_anchor
from audit.models import AuditEntry, AuditHead
from tests.audit.builders import manage, write

pytestmark = pytest.mark.django_db


def hosting_audit(*arguments: str) -> tuple[int, str]:
    """Run the command; give its exit code and what it printed."""
    out = StringIO()
    try:
        call_command("hosting_audit", *arguments, stdout=out, stderr=out)
    except SystemExit as left:
        return int(str(left.code)), out.getvalue()
    except CommandError as error:
        return error.returncode, str(error)
    return 0, out.getvalue()


def cut_to(sequence: int) -> None:
    AuditEntry.objects.filter(sequence__gt=sequence).delete()
    AuditHead.objects.update(sequence=sequence, mac=AuditEntry.objects.get(sequence=sequence).mac)


def test_intact_trail() -> None:
    write(3)
    write_anchor()
    code, printed = hosting_audit("verify")
    assert code == 0
    assert printed == "Intact: 3 entries. The last anchor is entry 3.\n"


def test_intact_trail_as_json() -> None:
    last = write(3)[-1]
    code, printed = hosting_audit("verify", "--json")
    assert code == 0
    assert json.loads(printed) == {
        "intact": True,
        "entries": 3,
        "last_mac": last.mac,
        "anchor": None,
        "problem": None,
    }


def test_missing_anchor_is_pointed_out() -> None:
    assert "no anchor yet" in hosting_audit("verify")[1]


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_broken_trail_is_named_with_its_first_bad_entry(more: tuple[str, ...]) -> None:
    write(5)
    AuditEntry.objects.filter(pk=4).update(actor="mallory")
    code, printed = hosting_audit("verify", *more)
    assert code == 1
    assert "4" in printed
    assert "altered" in printed


@pytest.mark.parametrize("verb", ["verify", "anchor"])
def test_unusable_key_file_is_a_matter_of_configuration(verb: str, settings: object, tmp_path: Path) -> None:
    settings.CHP_AUDIT_KEY_FILE = tmp_path / "none.key"
    code, printed = hosting_audit(verb)
    assert code == 2
    assert "CHP_AUDIT_KEY_FILE" in printed


def test_altered_anchor_is_broken(trail_files: Path) -> None:
    write(1)
    write_anchor()
    (trail_files / "anchors" / "audit.jsonl").write_text("{}\n")
    assert hosting_audit("verify")[0] == 1


def test_export_is_one_json_line_an_entry_and_the_head() -> None:
    write(3)
    code, printed = hosting_audit("export")
    lines = [json.loads(line) for line in printed.splitlines()]
    assert code == 0
    assert [line["sequence"] for line in lines[:-1]] == [1, 2, 3]
    assert lines[-1] == {"head": {"sequence": 3, "mac": lines[-2]["mac"]}}


def test_export_on_the_output_stays_readable_with_json() -> None:
    write(1)
    assert hosting_audit("export", "--json") == hosting_audit("export")


def test_export_to_a_file_is_the_owners_alone_and_replaces_nothing(tmp_path: Path) -> None:
    write(2)
    code, printed = hosting_audit("export", "--output", str(tmp_path / "out.jsonl"), "--json")
    assert (code, json.loads(printed)["entries"]) == (0, 2)
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o777 == 0o600
    assert hosting_audit("export", "--output", str(tmp_path / "out.jsonl"))[0] == 2


def test_anchor_by_hand_is_recorded_and_anchored_itself() -> None:
    write(2)
    code, printed = hosting_audit("anchor", "--reason", "before the upgrade", "--json")
    assert (code, json.loads(printed)["sequence"]) == (0, 3)
    recorded = AuditEntry.objects.get(pk=3)
    assert (recorded.action, recorded.reason) == ("audit.anchored", "before the upgrade")


def test_anchor_is_refused_after_a_cut() -> None:
    write(5)
    write_anchor()
    cut_to(3)
    code, printed = hosting_audit("anchor")
    assert code == 1
    assert "entry 5" in printed
    assert AuditEntry.objects.count() == 3


def test_anchor_after_a_restore_begins_anew_and_says_so_in_the_trail(trail_files: Path) -> None:
    write(5)
    write_anchor()
    cut_to(3)
    assert hosting_audit("anchor", "--after-restore")[0] == 2
    code, _ = hosting_audit("anchor", "--after-restore", "--reason", "disk of srv1 died")
    assert code == 0
    assert hosting_audit("verify")[0] == 0
    anchor = last_anchor()
    assert anchor is not None
    assert anchor.sequence == 4
    assert "anchors/audit.jsonl." in AuditEntry.objects.get(pk=4).data
    assert len(list((trail_files / "anchors").iterdir())) == 2


def test_list_filters_and_pages() -> None:
    write(3, tenant="a")
    write(3, tenant="b", data={"n": 1})
    code, printed = hosting_audit("list", "--tenant", "b", "--limit", "2", "--json")
    found = json.loads(printed)
    assert code == 0
    assert [entry["sequence"] for entry in found] == [6, 5]
    assert found[0]["data"] == {"n": 1}
    _, printed = hosting_audit("list", "--tenant", "b", "--before", "5", "--json")
    assert [entry["sequence"] for entry in json.loads(printed)] == [4]


def test_list_for_people_is_one_line_an_entry() -> None:
    write(2, reason="first\nsecond")
    _, printed = hosting_audit("list")
    assert len(printed.splitlines()) == 2
    assert "alice (panel): job.enqueued JOB-000002" in printed


def test_list_prints_no_escape_sequence_that_an_attacker_put_into_the_table() -> None:
    write(1)
    AuditEntry.objects.update(reason="\x1b[2Jgone\x1b]0;x\x07")
    assert "\x1b" not in hosting_audit("list")[1]


def test_who_may_not_operate_may_not_read_the_trail() -> None:
    get_user_model().objects.create_user("bob")
    code, printed = hosting_audit("list", "--as", "bob")
    assert code == 1
    assert "may not" in printed
    assert AuditEntry.objects.get().action == "access.denied"


def test_exit_codes_of_the_program_itself(other_database: Path) -> None:
    def code(*arguments: str) -> int:
        return manage(other_database, "hosting_audit", *arguments).returncode

    assert code("eat") == 2
    assert code("anchor") == 0
    with sqlite3.connect(other_database / "other.sqlite3") as database:
        database.execute("UPDATE audit_auditentry SET actor = 'mallory'")
    assert code("verify") == 1
    (other_database / "audit.key").chmod(0o644)
    assert code("verify") == 2
