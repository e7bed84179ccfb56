"""What django-q2 triggers for the engine: short, repeatable evaluations. Work itself is jobs of our own."""

from audit.anchor import write_anchor
from jobs import prune, recovery


def look_after_jobs() -> str:
    """Rescue lost jobs and anchor the trail, also while no worker lives; give a line for the task's row."""
    rescued = recovery.sweep()
    recovery.mend()
    write_anchor()
    return f"{len(rescued)} jobs rescued"


def prune_jobs() -> str:
    """Take away jobs that ended long ago; give a line for the task's row."""
    return f"{prune.prune()} jobs removed"
