"""The periodic evaluations of this installation, kept in code and synced into django-q2's table."""

from dataclasses import dataclass

from django.db import transaction
from django_q.models import Schedule


@dataclass(frozen=True)
class Evaluation:
    """A function by its path, and how often it runs, in minutes."""

    name: str
    function: str
    minutes: int


EVALUATIONS = (Evaluation("look after jobs", "jobs.periodic.look_after_jobs", 1),)


def sync() -> None:
    """Make django-q2's table equal to the list above: one bad row there would block all schedules."""
    with transaction.atomic():
        Schedule.objects.exclude(name__in=[evaluation.name for evaluation in EVALUATIONS]).delete()
        for evaluation in EVALUATIONS:
            Schedule.objects.update_or_create(
                name=evaluation.name,
                defaults={
                    "func": evaluation.function,
                    "schedule_type": Schedule.MINUTES,
                    "minutes": evaluation.minutes,
                    "args": None,
                    "kwargs": None,
                    "repeats": -1,
                },
            )
