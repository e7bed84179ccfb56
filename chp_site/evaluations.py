"""The periodic evaluations of this installation: the only functions that django-q2 may call."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Evaluation:
    """A function by its path, and how often it runs, in minutes."""

    name: str
    function: str
    minutes: int


EVALUATIONS = (
    Evaluation("look after jobs", "jobs.periodic.look_after_jobs", 1),
    Evaluation("prune jobs", "jobs.periodic.prune_jobs", 15),
)
FUNCTIONS = frozenset(evaluation.function for evaluation in EVALUATIONS)
