"""What must be true of one job's life, by itself: legal moves, one end, one claim per epoch, a result."""

from collections.abc import Iterator
from itertools import pairwise

from jobs.states import ENDED, HELD, MOVES, Status
from tests.engine.history import History, Row
from tests.engine.violation import Expected, Rule, Violation


def in_one_life(history: History, expected: Expected) -> Iterator[Violation]:
    """Give what is wrong with one history, whatever other jobs did."""
    code = (history.job.code,)
    sentences = {
        Rule.MOVES: _illegal_moves(history),
        Rule.END: _second_ends(history),
        Rule.EPOCHS: _wrong_epochs(history),
        Rule.LEFTOVER: _leftover(history.job, expected),
        Rule.RESULTS: _wrong_result(history.job),
        Rule.ORPHANS: _unexpected_orphans(history, expected),
    }
    for rule, wrong in sentences.items():
        yield from (Violation(rule, code, f"{history.job.code} {sentence}") for sentence in wrong)


def _illegal_moves(history: History) -> Iterator[str]:
    state: str = Status.QUEUED
    for move in history.moves:
        if move.origin and move.origin != state:
            yield f"says it went from {move.origin} to {move.to}, but it was {state}"
        elif not _is_second_end(state, move.to) and not _is_legal(state, move.to):
            yield f"went from {state} to {move.to}"
        state = move.to
    if history.job.status != state:
        yield f"is {history.job.status} by its row and {state} by its history"


def _is_legal(origin: str, to: str) -> bool:
    return origin in Status.values and to in MOVES[Status(origin)]


def _second_ends(history: History) -> Iterator[str]:
    states = [Status.QUEUED, *(move.to for move in history.moves)]
    for state, after in pairwise(states):
        if _is_second_end(state, after):
            yield f"ended {state} and then {after}"


def _is_second_end(state: str, after: str) -> bool:
    # A person may close what has failed; that is the one end that another one follows.
    return state in ENDED and after in ENDED and not (state == Status.FAILED and after == Status.RESOLVED)


def _wrong_epochs(history: History) -> Iterator[str]:
    claimed = history.claimed_epochs
    if claimed != list(range(1, len(claimed) + 1)):
        yield f"was claimed in the epochs {claimed}"
    elif history.job.epoch != len(claimed):
        yield f"has epoch {history.job.epoch} after {len(claimed)} claims"
    current = 0
    for move in history.moves:
        current = move.epoch if move.to == Status.RUNNING else current
        if move.epoch != current:
            yield f"became {move.to} by claim {move.epoch} while claim {current} was in force"


def _leftover(job: Row, expected: Expected) -> Iterator[str]:
    if job.status in HELD and not expected.may_run:
        yield f"is still {job.status} though no worker is left"
    elif expected.all_ended and job.status not in (*HELD, *ENDED):
        yield f"has not ended: it is {job.status}"


def _wrong_result(job: Row) -> Iterator[str]:
    if job.status != Status.SUCCESS:
        return
    if job.result is None:
        yield "succeeded without a result"
    elif isinstance(job.result, dict) and job.result.get("epoch", job.epoch) != job.epoch:
        yield f"succeeded in epoch {job.epoch} with the result of epoch {job.result['epoch']}"


def _unexpected_orphans(history: History, expected: Expected) -> Iterator[str]:
    if expected.orphans is None or history.job.job_type in expected.orphans:
        return
    if any(move.to == Status.ORPHANED for move in history.moves):
        yield f"was orphaned, though a lost {history.job.job_type} is no matter for a person"
