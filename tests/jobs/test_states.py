"""The table of moves, against DESIGN section 4 written out once more by hand."""

import itertools

import pytest

from jobs.states import MOVES, SENTENCES, Status, may_move

ALLOWED = {
    ("QUEUED", "RUNNING"),
    ("QUEUED", "CANCELLED"),
    ("QUEUED", "FAILED"),
    ("RUNNING", "SUCCESS"),
    ("RUNNING", "FAILED"),
    ("RUNNING", "CANCEL_REQUESTED"),
    ("RUNNING", "QUEUED"),
    ("RUNNING", "ORPHANED"),
    ("CANCEL_REQUESTED", "CANCELLED"),
    ("CANCEL_REQUESTED", "SUCCESS"),
    ("CANCEL_REQUESTED", "FAILED"),
    ("CANCEL_REQUESTED", "ORPHANED"),
    ("ORPHANED", "FAILED"),
    ("ORPHANED", "RESOLVED"),
    ("ORPHANED", "QUEUED"),
    ("FAILED", "QUEUED"),
    ("FAILED", "RESOLVED"),
    ("CANCELLED", "QUEUED"),
}


@pytest.mark.parametrize(("origin", "to"), list(itertools.product(Status.values, Status.values)))
def test_a_move_is_allowed_exactly_where_the_design_says(origin: str, to: str) -> None:
    assert may_move(origin, to) == ((origin, to) in ALLOWED)


def test_every_state_has_a_sentence_and_a_row() -> None:
    assert set(SENTENCES) == set(MOVES) == set(Status)
