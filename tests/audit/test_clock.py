"""The database's clock: fixed within a transaction, moving outside of it."""

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from django.db import transaction

from audit import clock

START = datetime(2026, 8, 13, 2, 0, tzinfo=UTC)

pytestmark = pytest.mark.usefixtures("each_database_mode")


@pytest.fixture
def ticking() -> object:
    """Replace the clock by one that is a second later at each reading."""
    seconds = count()
    with clock.override(lambda: START + timedelta(seconds=next(seconds))):
        yield


@transaction.atomic
def read_twice() -> tuple[datetime, datetime]:
    return clock.database_now(), clock.database_now()


def test_gives_the_databases_time_aware_and_in_utc() -> None:
    now = clock.database_now()
    assert now.tzinfo is UTC
    assert abs(now - datetime.now(UTC)) < timedelta(seconds=5)


def test_resolves_at_least_milliseconds() -> None:
    assert any(clock.database_now().microsecond % 1_000_000 for _ in range(5))


def test_outside_of_a_transaction_it_is_read_anew(ticking: object) -> None:
    assert clock.database_now() < clock.database_now()


def test_inside_a_transaction_it_stays(ticking: object) -> None:
    with transaction.atomic():
        first = clock.database_now()
        with transaction.atomic():
            assert clock.database_now() == first
        assert clock.database_now() == first


def test_reading_of_a_savepoint_holds_for_the_whole_transaction(ticking: object) -> None:
    with transaction.atomic():
        with transaction.atomic():
            first = clock.database_now()
            transaction.set_rollback(True)
        assert clock.database_now() == first


def test_next_transaction_of_the_same_function_reads_anew(ticking: object) -> None:
    first, second = read_twice(), read_twice()
    assert first[0] == first[1]
    assert second[0] == second[1]
    assert first[0] < second[0]


def test_transaction_after_a_rolled_back_one_reads_anew(ticking: object) -> None:
    with transaction.atomic():
        first = clock.database_now()
        transaction.set_rollback(True)
    with transaction.atomic():
        assert clock.database_now() > first


def test_after_a_transaction_it_moves_on(ticking: object) -> None:
    with transaction.atomic():
        first = clock.database_now()
    assert clock.database_now() > first


def test_override_ends_with_its_block() -> None:
    with clock.override(START):
        assert clock.database_now() == START
    assert clock.database_now() > START


def test_moment_as_text_has_one_form() -> None:
    assert clock.as_text(START) == "2026-08-13T02:00:00.000000Z"
    elsewhere = datetime.fromisoformat("2026-08-13T04:00:00.5+02:00")
    assert clock.as_text(elsewhere) == "2026-08-13T02:00:00.500000Z"
