"""What must be true of every history of jobs, whatever happened: one check of the whole database.

Call it when nothing moves any more.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from audit.actions import Action
from audit.models import AuditEntry
from audit.verification import verify_trail
from jobs.states import Status
from jobs.transitions import AUDITED
from tests.engine.history import CHUNK, History, Hold, histories, holds
from tests.engine.lives import in_one_life
from tests.engine.overlaps import conflicts, limits
from tests.engine.violation import Expected, Rule, Violation
from tests.engine.work import in_marks


def violations(expected: Expected) -> list[Violation]:
    """Read the whole database and give everything that is wrong in it."""
    found: list[Violation] = []
    taken: list[Hold] = []
    known: dict[str, History] = {}
    entries = _entries()
    for history in histories():
        known[history.job.code] = history
        taken += holds(history)
        found += in_one_life(history, expected)
        found += _audited(history, entries.pop(history.job.code, []))
    found += [
        Violation(Rule.AUDIT, (code,), f"the trail tells of {code}, which is no job") for code in entries
    ]
    taken.sort(key=lambda hold: hold.claimed.key)
    found += [*conflicts(taken), *limits(taken, expected), *_chain()]
    return found + list(in_marks(expected.marks, known) if expected.marks else ())


def _entries() -> dict[str, list[str]]:
    actions = [Action.JOB_ENQUEUED, *AUDITED.values()]
    rows = AuditEntry.objects.filter(action__in=actions).order_by("sequence")
    found: dict[str, list[str]] = defaultdict(list)
    for target, action in rows.values_list("target", "action").iterator(CHUNK):
        found[target].append(action)
    return found


def _audited(history: History, entries: list[str]) -> Iterator[Violation]:
    moved = [AUDITED[Status(move.to)] for move in history.moves if move.to in Status.values]
    wanted = [Action.JOB_ENQUEUED.value, *(action.value for action in moved)]
    if entries != wanted:
        sentence = f"{history.job.code}: the trail has {_counted(entries)}, the history {_counted(wanted)}"
        yield Violation(Rule.AUDIT, (history.job.code,), sentence)


def _counted(actions: list[str]) -> str:
    return ", ".join(f"{count} {action}" for action, count in Counter(actions).items()) or "nothing"


def _chain() -> Iterator[Violation]:
    problem = verify_trail().verdict.problem
    if problem is not None:
        yield Violation(Rule.AUDIT, (), f"{problem.kind}: {problem.message}")
