"""hosting-worker: claim jobs and run them until told to stop."""

import json
import socket
import sys
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from accounts.actor import Actor
from audit.clock import database_now
from chp_site.console import ANSWER_IS_NO, BAD_USAGE, HostingCommand
from chp_site.tables import moment
from jobs import statements
from jobs.models import Worker
from jobs.waiting import live_workers
from jobs.worker import SKEW_WARNING_SECONDS, Supervisor


class Command(HostingCommand):
    """SIGTERM or Ctrl-C: claim no more, finish what runs, leave. A second one leaves at once."""

    help = (
        "Run a worker. It stops at SIGTERM or Ctrl-C once its jobs have ended; "
        "a second signal stops it at once and hands its jobs to recovery."
    )
    prog = "hosting-worker"

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", help="a label for people (worker@ and the host's name)")
        parser.add_argument(
            "--slots", type=int, default=settings.MAX_WORKERS, help="jobs at once (MAX_WORKERS)"
        )
        parser.add_argument("--once", action="store_true", help="leave when no job is ready")
        parser.add_argument(
            "--check",
            action="store_true",
            help="start nothing; say whether a worker of this label, or any of this host, is alive",
        )

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        if options["check"]:
            return self._check(options)
        if not 1 <= options["slots"] <= 64:
            raise CommandError("--slots must be from 1 to 64.", returncode=BAD_USAGE)
        name = (options["name"] or f"worker@{socket.gethostname()}")[:100]
        with statements.planned_once():
            code = Supervisor(name, options["slots"], once=options["once"]).run()
        if options["as_json"]:
            self.stdout.write(json.dumps({"worker": name, "exit": code}))
        sys.exit(code)

    def _check(self, options: dict[str, Any]) -> Any:
        now = database_now()
        label, host = options["name"], socket.gethostname()
        alive = [
            worker for worker in live_workers(now) if (worker.name == label if label else worker.host == host)
        ]
        told = [_sentence(worker, now) for worker in alive] or [_silence(label, host)]
        if options["as_json"]:
            self.print_json(
                {"alive": bool(alive), "workers": [_data(worker) for worker in alive], "says": told}
            )
        else:
            (self.stdout if alive else self.stderr).write("\n".join(told))
        sys.exit(0 if alive else ANSWER_IS_NO)


def _sentence(worker: Worker, now: datetime) -> str:
    ago = max(0.0, (now - worker.polled_at).total_seconds())
    said = f"{worker.name} on {worker.host} polled {ago:.0f} s ago; {worker.slots} slots."
    skew = worker.clock_skew_seconds or 0.0
    if abs(skew) > SKEW_WARNING_SECONDS:
        said += f" Its clock is {skew:+.1f} s off the database's."
    return said


def _silence(label: str | None, host: str) -> str:
    known = Worker.objects.filter(name=label) if label else Worker.objects.filter(host=host)
    which = f"worker called {label}" if label else f"worker of {host}"
    last = known.order_by("-polled_at").first()
    if last is None:
        return f"No {which} has ever polled."
    how = f"; {last.name} was stopped then" if last.stopped_at else ""
    return f"No {which} has polled since {moment(last.polled_at)} UTC{how}."


def _data(worker: Worker) -> dict[str, Any]:
    return {
        "name": worker.name,
        "host": worker.host,
        "slots": worker.slots,
        "polled_at": worker.polled_at,
        "clock_skew_seconds": worker.clock_skew_seconds,
    }
