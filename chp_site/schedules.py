"""Keeps django-q2's table of schedules equal to the evaluations of the code."""

from django.db import transaction
from django_q.models import Schedule

from chp_site.evaluations import EVALUATIONS


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
