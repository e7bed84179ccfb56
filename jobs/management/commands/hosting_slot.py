"""The slot process that a worker starts for itself. Not for people."""

from multiprocessing.connection import Connection
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobs import statements
from jobs.ledger import Ledger
from jobs.slot import serve


class Command(BaseCommand):
    """Run the attempts that come over an inherited pipe."""

    help = "Internal: the process in which a worker runs one job at a time."
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own attribute

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--fd", type=int, required=True, help="descriptor of the inherited pipe")
        parser.add_argument("--ledger", type=int, required=True, help="descriptor of the shared memory")

    def handle(self, *args: Any, **options: Any) -> None:
        with statements.planned_once():
            serve(Connection(options["fd"]), Ledger(options["ledger"]))
