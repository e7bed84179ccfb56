"""conflicts and stats of hosting-job."""

from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from chp_site.console import HostingCommand
from chp_site.tables import WIDTH, facts, fitted, table
from jobs import conflicts, pauses, registry
from jobs.conflicts import Matrix
from jobs.management.verb import Options, Verb, require_overview, say
from jobs.models import Pause
from jobs.statistics import Figures, figures


def no_arguments(parser: CommandParser) -> None:
    """Add nothing."""


def show_conflicts(command: HostingCommand, actor: Actor, options: Options) -> Any:
    """Print which work waits for which on one site."""
    matrix = conflicts.matrix({name: found.profile for name, found in registry.operations().items()})
    say(command, options, matrix_text(matrix))
    return {"matrix": matrix}


def stats(command: HostingCommand, actor: Actor, options: Options) -> Any:
    """Print how the queue stands."""
    require_overview(actor)
    found, paused = figures(), pauses.in_force().pauses
    say(command, options, "\n".join([_stats_text(found), *map(_pause_text, paused)]))
    return {**_stats_data(found), "pauses": [_pause_data(pause) for pause in paused]}


def matrix_text(matrix: Matrix) -> str:
    """Give the matrix as a table; where names and words are too long for a terminal, in short."""
    names = list(matrix)
    wide = _matrix_table(names, names, matrix, "wait")
    if max(map(len, wide.splitlines())) <= WIDTH:
        return wide
    numbers = [str(number) for number in range(1, len(names) + 1)]
    labels = [f"{number} {name}" for number, name in zip(numbers, names, strict=True)]
    return _matrix_table(numbers, labels, matrix, "w")


def _matrix_table(columns: Sequence[str], labels: Sequence[str], matrix: Matrix, wait: str) -> str:
    rows = [
        [label, *(wait if word == "wait" else "-" for word in row.values())]
        for label, row in zip(labels, matrix.values(), strict=True)
    ]
    legend = f"{wait}: the asked work waits for the running one on the same site. -: allowed."
    return "\n".join([table(["RUNNING, ASKED:", *columns], rows), legend])


def _stats_text(found: Figures) -> str:
    waiting = [(f"  {kind.label}", count) for kind, count in found.waiting.items() if count]
    return facts(
        [
            ("Running", found.running),
            ("Queued", found.queued),
            ("  ready", found.ready),
            *waiting,
            ("Failed today", found.failed_today),
            ("Completed today", found.completed_today),
            ("Orphaned", found.orphaned),
            ("Workers alive", found.workers_alive),
        ]
    )


def _pause_text(pause: Pause) -> str:
    since = f"{pause.since:%Y-%m-%d %H:%M} UTC"
    return fitted(f"Paused: {pause}, by {pause.paused_by} since {since}: {pause.reason}")


def _pause_data(pause: Pause) -> dict[str, object]:
    return {"what": pause.target, "by": pause.paused_by, "since": pause.since, "reason": pause.reason}


def _stats_data(found: Figures) -> dict[str, object]:
    waiting = {kind.value: count for kind, count in found.waiting.items()}
    return {
        "running": found.running,
        "queued": found.queued,
        "ready": found.ready,
        "waiting": waiting,
        "failed_today": found.failed_today,
        "completed_today": found.completed_today,
        "orphaned": found.orphaned,
        "workers_alive": found.workers_alive,
    }


CONFLICTS = Verb("which work waits for which on one site", no_arguments, show_conflicts)
STATS = Verb("how the queue stands, in figures", no_arguments, stats)
