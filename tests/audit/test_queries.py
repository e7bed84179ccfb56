"""Pages of the trail: newest first, by key, within bounds, served by indexes."""

import pytest
from django.db import connection

from audit.queries import LONGEST_PAGE, Wanted, entries, page
from tests.audit.builders import write

pytestmark = pytest.mark.django_db


def test_pages_hold_every_entry_once() -> None:
    write(25)
    seen: list[int] = []
    before = None
    while found := page(Wanted(before=before), 10):
        seen += [entry.sequence for entry in found]
        before = seen[-1]
    assert seen == list(range(25, 0, -1))


def test_fields_are_matched_whole_and_together() -> None:
    write(2, tenant="a", actor="alice")
    write(2, tenant="a", actor="bob")
    write(2, tenant="ab", actor="alice")
    assert [entry.sequence for entry in page(Wanted(tenant="a", actor="alice"))] == [2, 1]


@pytest.mark.parametrize(("asked", "given"), [(0, 1), (-5, 1), (3, 3), (10**9, 5)])
def test_size_is_bounded(asked: int, given: int) -> None:
    write(5)
    assert len(page(Wanted(), asked)) == given
    assert LONGEST_PAGE < 10**9


@pytest.mark.parametrize("field", ["tenant", "target", "actor", "action"])
def test_each_field_has_its_index(field: str) -> None:
    plan = entries(Wanted(**{field: "x"}))[:50].explain()
    if connection.vendor == "sqlite":
        assert f"audit_by_{field}" in plan
    else:
        assert "Limit" in plan  # an empty table is scanned whatever its indexes
