"""What must be true of jobs beside each other: no conflict on a site, no limit exceeded."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from jobs.conflicts import must_wait
from tests.engine.history import Hold, Moment, Row
from tests.engine.violation import Expected, Rule, Violation


def _overlap(one: Hold, other: Hold, ends: tuple[Moment | None, Moment | None]) -> bool:
    """Whether two half-open intervals meet, by time and by key alike.

    Time alone may be read before a lock is granted, and a key is given before a commit: what is truly at once
    is so in both orders.
    """
    one_end, other_end = ends
    return _begins_inside(one.claimed, other_end) and _begins_inside(other.claimed, one_end)


def _begins_inside(begin: Moment, end: Moment | None) -> bool:
    return end is None or (begin.at < end.at and begin.key < end.key)


def conflicts(taken: Iterable[Hold]) -> Iterator[Violation]:
    """Give every claim that met a closed site. `taken` in the order of the claims' keys."""
    closing: dict[int | None, list[Hold]] = defaultdict(list)
    for hold in taken:
        site = hold.job.site
        closing[site] = [other for other in closing[site] if _is_before_key(hold, other.opened)]
        for other in closing[site] if site is not None else ():
            if excludes(other.job, hold.job) and _overlap(other, hold, (other.opened, hold.opened)):
                codes = (other.job.code, hold.job.code)
                sentence = f"{codes[1]} was claimed while {codes[0]} kept site {site} closed"
                yield Violation(Rule.CONFLICTS, codes, sentence)
        closing[site].append(hold)


def _is_before_key(hold: Hold, end: Moment | None) -> bool:
    return end is None or hold.claimed.key < end.key


def excludes(running: Row, asked: Row) -> bool:
    """Whether asked work waits for running work where both are on one site."""
    return must_wait(running.lock, running.mutating, asked.lock, asked.mutating)


def limits(taken: Iterable[Hold], expected: Expected) -> Iterator[Violation]:
    """Give every claim by which too many places were in use. `taken` in the order of the claims' keys."""
    held: list[Hold] = []
    for hold in taken:
        held = [other for other in held if _is_before_key(hold, other.released)]
        at_once = [other for other in held if _overlap(other, hold, (other.released, hold.released))]
        held.append(hold)
        yield from _exceeded([*at_once, hold], expected)


def _exceeded(at_once: list[Hold], expected: Expected) -> Iterator[Violation]:
    job = at_once[-1].job
    same_type = [hold for hold in at_once if hold.job.job_type == job.job_type]
    same_server = [hold for hold in at_once if hold.job.server == job.server]
    for name, holding, limit in (
        ("overall", at_once, expected.overall),
        (job.job_type, same_type, expected.by_type.get(job.job_type)),
        (f"server {job.server}", same_server, expected.per_server),
    ):
        places = {hold.place for hold in holding}
        if limit is not None and len(places) > limit:
            codes = tuple(hold.job.code for hold in holding)
            sentence = f"{len(places)} places were in use, {limit} may be ({name})"
            yield Violation(Rule.LIMITS, codes, sentence)
