"""The only writer: inside transactions, one chain, text cleaned, a constant number of queries."""

import json
from datetime import UTC, datetime

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from audit import clock, keys, trail
from audit.actions import Action
from audit.chain import COLUMNS
from audit.exceptions import HeadMissing, KeyFileRefused, OutsideTransaction
from audit.models import AuditEntry, AuditHead
from audit.verification import verify_trail
from tests.audit.builders import entry, write

pytestmark = pytest.mark.usefixtures("each_database_mode")


def test_entry_outside_of_a_transaction_is_refused() -> None:
    with pytest.raises(OutsideTransaction):
        trail.record(entry())
    assert not AuditEntry.objects.exists()


def test_recorded_entries_are_one_chain() -> None:
    write(3)
    write(2)
    assert list(AuditEntry.objects.order_by("sequence").values_list("sequence", flat=True)) == [1, 2, 3, 4, 5]
    assert AuditHead.objects.get().sequence == 5
    assert verify_trail().verdict.entries == 5
    assert verify_trail().verdict.problem is None


def test_gives_the_entries_as_they_stand_in_the_database() -> None:
    (given,) = write(1, reason="wanted")
    stored = AuditEntry.objects.get(pk=given.pk)
    assert [getattr(given, name) for name in COLUMNS] == [getattr(stored, name) for name in COLUMNS]
    assert stored.reason == "wanted"


def test_rolled_back_entry_leaves_nothing() -> None:
    write(1)
    with transaction.atomic():
        trail.record(entry())
        transaction.set_rollback(True)
    write(1)
    assert AuditHead.objects.get().sequence == 2
    assert verify_trail().verdict.problem is None


def test_nothing_to_record_asks_nothing_of_the_database(django_assert_num_queries: object) -> None:
    with transaction.atomic(), django_assert_num_queries(0):
        assert trail.record() == []


def test_number_of_queries_does_not_grow_with_the_entries() -> None:
    write(1)
    counts = []
    for number in (1, 500):
        with transaction.atomic(), CaptureQueriesContext(connection) as queries:
            trail.record(*[entry() for _ in range(number)])
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 4


def test_time_is_the_databases_of_that_transaction() -> None:
    moment = datetime(2026, 8, 13, 2, 0, 0, 123456, tzinfo=UTC)
    with clock.override(moment):
        (written,) = write(1)
    assert written.at == "2026-08-13T02:00:00.123456Z"
    assert AuditEntry.objects.get().moment == moment


def test_data_is_canonical_json() -> None:
    (written,) = write(1, data={"b": float("nan"), "a": "ü", 3: [1, 2.5]})
    assert written.data == '{"3":[1,2.5],"a":"\\u00fc","b":"nan"}'


def test_hostile_text_is_stored_clean_and_within_its_column() -> None:
    (written,) = write(
        1, actor="a\x00" * 300, tenant="t" * 500, reason="password=hunter2x\ud800", result="r" * 999
    )
    stored = AuditEntry.objects.get(pk=written.pk)
    assert stored.reason == "password=***\\ud800"
    assert len(stored.actor) <= 200
    assert len(stored.tenant) <= 100
    assert len(stored.result) <= 100
    assert verify_trail().verdict.problem is None


def test_ten_megabytes_of_data_are_cut() -> None:
    (written,) = write(1, data={"output": "x" * 10_000_000, "numbers": list(range(100_000))})
    assert len(written.data) <= trail.DATA_LIMIT
    assert "output" in json.loads(written.data)


def test_unknown_action_is_refused() -> None:
    with pytest.raises(ValueError, match="not a valid Action"), transaction.atomic():
        trail.record(entry(action="job_eaten"))


def test_without_its_keys_nothing_is_recorded(settings: object, tmp_path: object) -> None:
    settings.CHP_AUDIT_KEY_FILE = tmp_path / "none.key"
    with pytest.raises(KeyFileRefused), transaction.atomic():
        trail.record(entry())
    assert not AuditEntry.objects.exists()


def test_new_key_signs_from_its_line_on(trail_files: object) -> None:
    write(1)
    keys.create(trail_files / "second.key", "audit-2")
    with (trail_files / "audit.key").open("a") as file:
        file.write((trail_files / "second.key").read_text())
    write(1)
    assert list(AuditEntry.objects.order_by("pk").values_list("key_id", flat=True)) == ["audit-1", "audit-2"]
    assert verify_trail().verdict.problem is None


def test_missing_head_of_a_used_trail_stops_the_writer() -> None:
    write(1)
    AuditHead.objects.all().delete()
    with pytest.raises(HeadMissing), transaction.atomic():
        trail.record(entry())


def test_missing_head_of_an_empty_trail_is_made() -> None:
    AuditHead.objects.all().delete()
    write(1)
    assert AuditHead.objects.get().sequence == 1


def test_denial_has_a_transaction_of_its_own() -> None:
    assert trail.may_record_denial()
    written = trail.record_denial(entry(action=Action.ACCESS_DENIED, reason="not yours"))
    assert AuditEntry.objects.get().reason == written.reason == "not yours"


def test_denial_inside_another_transaction_is_refused() -> None:
    with transaction.atomic():
        assert not trail.may_record_denial()
        with pytest.raises(RuntimeError, match="durable"):
            trail.record_denial(entry(action=Action.ACCESS_DENIED))
