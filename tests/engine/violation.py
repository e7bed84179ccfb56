"""The values of the check: what is demanded, and what was found against it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Rule(StrEnum):
    """The names of what can be violated."""

    CONFLICTS = "conflicts"
    LIMITS = "limits"
    END = "exactly one end"
    MOVES = "legal moves"
    EPOCHS = "one claim per epoch"
    LEFTOVER = "no leftover"
    AUDIT = "audit"
    RESULTS = "results"
    ORPHANS = "orphans"
    MARKS = "marks"


@dataclass(frozen=True)
class Violation:
    """One thing that must never be: which rule, which jobs, in a sentence."""

    rule: Rule
    jobs: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class Expected:
    """What is to be demanded. None: not checked.

    `overall`, `by_type`, `per_server` are limits of places in use at once. `may_run`: jobs may be held still,
    where no recovery has run. `all_ended`: none is queued or orphaned either. `orphans`: the types that may
    ever have been orphaned. `marks`: the file of the runs' marks.
    """

    overall: int | None = None
    by_type: Mapping[str, int] = field(default_factory=dict)
    per_server: int | None = None
    may_run: bool = False
    all_ended: bool = False
    orphans: frozenset[str] | None = None
    marks: Path | None = None
