"""What must be true of the runs by their own marks: one per epoch, none unclaimed, no conflict at work."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path

from jobs.states import Status
from tests.engine import marks
from tests.engine.history import History
from tests.engine.marks import Run
from tests.engine.overlaps import excludes
from tests.engine.violation import Rule, Violation

Histories = Mapping[str, History]


def in_marks(path: Path, known: Histories) -> Iterator[Violation]:
    """Give what is wrong with the marks in the file. `known`: every history by its job's code."""
    try:
        done = list(marks.runs(path))
    except (OSError, ValueError) as error:
        yield Violation(Rule.MARKS, (), f"the marks cannot be read: {error}")
        return
    yield from _repeated_runs(done)
    yield from _unclaimed_runs(done, known)
    yield from _missing_runs(done, known)
    yield from _overlapping_runs([run for run in done if run.code in known], known)


def _repeated_runs(done: list[Run]) -> Iterator[Violation]:
    for (code, epoch), count in Counter((run.code, run.epoch) for run in done).items():
        if count > 1:
            yield Violation(Rule.MARKS, (code,), f"{code} ran {count} times in epoch {epoch}")


def _unclaimed_runs(done: list[Run], known: Histories) -> Iterator[Violation]:
    for run in done:
        if run.code not in known or run.epoch not in known[run.code].claimed_epochs:
            yield Violation(Rule.MARKS, (run.code,), f"{run.code} ran in epoch {run.epoch}, never claimed")


def _missing_runs(done: list[Run], known: Histories) -> Iterator[Violation]:
    whole = {(run.code, run.epoch) for run in done if run.is_whole}
    for code, history in known.items():
        job = history.job
        if job.is_marked and job.status == Status.SUCCESS and (code, job.epoch) not in whole:
            yield Violation(Rule.MARKS, (code,), f"{code} succeeded in epoch {job.epoch} without a whole run")


def _overlapping_runs(done: list[Run], known: Histories) -> Iterator[Violation]:
    by_site: dict[int | None, list[Run]] = defaultdict(list)
    for run in done:
        if run.began is not None and run.ended is not None:
            by_site[known[run.code].job.site].append(run)
    for site, there in by_site.items():
        for one, other in combinations(there, 2):
            if excludes(known[one.code].job, known[other.code].job) and _at_once(one, other):
                sentence = f"{one.code} and {other.code} worked at once on site {site}"
                yield Violation(Rule.MARKS, (one.code, other.code), sentence)


def _at_once(one: Run, other: Run) -> bool:
    return max(one.began or 0, other.began or 0) < min(one.ended or 0, other.ended or 0)
