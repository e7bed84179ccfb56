"""What every hosting-* command has in common: its name, --json, who acts, exit codes, one-line errors."""

import getpass
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import InterfaceError, OperationalError, ProgrammingError

from accounts.actor import Actor, actor_for, operator
from accounts.exceptions import AccountError
from accounts.models import User
from audit import trail
from audit.actions import Action
from audit.exceptions import AuditError
from backups.exceptions import BackupError
from jobs.exceptions import JobError
from provisioning.exceptions import ResourceError
from sites.exceptions import SiteError

ANSWER_IS_NO = 1
BAD_USAGE = 2
REFUSALS = (AccountError, AuditError, BackupError, JobError, ResourceError, SiteError)


def plain(value: object) -> str:
    """Give what JSON has no word for: a time as in the API, with T and its offset."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _require_text(options: Mapping[str, Any]) -> None:
    """Refuse arguments whose bytes are no UTF-8, before anything looks at them."""
    for name, value in options.items():
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and not text.isprintable() and _is_broken(text) for text in texts):
            raise CommandError(f"The value of {name} is not UTF-8.", returncode=BAD_USAGE)


def _is_broken(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


class HostingCommand(BaseCommand, ABC):
    """Base of the operators' commands.

    A subclass gives `prog`, adds its arguments in `arguments`, and returns from `act` what --json prints.
    Exit codes: 0 done, 1 the answer is no (refused, not found, failed), 2 wrong usage or configuration.
    """

    prog = ""
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own attribute; checks belong to `check`

    # Django's own switches work but are not an operator's business.
    suppressed_base_arguments = {  # noqa: RUF012 - Django's own attribute
        "--version",
        "--verbosity",
        "--settings",
        "--pythonpath",
        "--traceback",
        "--no-color",
        "--force-color",
    }

    def add_arguments(self, parser: CommandParser) -> None:
        # Before the subcommands, which are called after it.
        parser.prog = self.prog
        self.arguments(parser)
        if not parser.get_default("has_subcommands"):
            self.common(parser)

    def arguments(self, parser: CommandParser) -> None:
        """Add the command's own arguments."""

    def common(self, parser: Any) -> None:
        """Add what every command takes; a command with subcommands calls this for each of them."""
        parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON value")
        parser.add_argument("--as", dest="as_user", metavar="USER", help="act with the rights of this user")

    @abstractmethod
    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        """Do it, print for people unless --json was given, and return plain data."""

    def handle(self, *args: Any, **options: Any) -> None:
        _require_text(options)
        before = trail.denials_recorded()
        try:
            data = self.act(self.actor(options), options)
        except REFUSALS as error:
            if trail.denials_recorded() == before:
                self._record(error, options)
            self._say_no(error, options)
        except (OperationalError, InterfaceError, ProgrammingError) as error:
            raise CommandError(
                f"The panel's database cannot be used: {str(error).strip()}. Look at CHP_DATABASE_URL and "
                "whether the database runs and is migrated (hosting-setup).",
                returncode=BAD_USAGE,
            ) from error
        else:
            if options.get("as_json"):
                self.print_json(data)

    def print_json(self, data: Any) -> None:
        """Print one JSON value."""
        self.stdout.write(json.dumps(data, indent=2, default=plain))

    def actor(self, options: dict[str, Any]) -> Actor:
        """Give who acts: the shell's user, or with --as a user of the panel with no more than its rights."""
        name = options.get("as_user")
        if not name:
            return operator(getpass.getuser())
        user = User.objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"There is no user {name!r}.", returncode=BAD_USAGE)
        return actor_for(user, "command")

    def _record(self, error: Exception, options: dict[str, Any]) -> None:
        """Put what a user may not into the trail; a slip of the operator's own is no denial."""
        if not options.get("as_user") or isinstance(error, AuditError) or not trail.may_record_denial():
            return
        actor = self.actor(options)
        trail.record_denial(
            trail.Entry(
                Action.ACCESS_DENIED,
                actor.label,
                actor.kind,
                target=self.prog,
                reason=str(error),
                result="denied",
            )
        )

    def _say_no(self, error: Exception, options: dict[str, Any]) -> None:
        if options.get("as_json"):
            code = getattr(error, "code", "refused")
            self.print_json({"error": {"code": code, "message": str(error)}})
        else:
            self.stderr.write(str(error))
        sys.exit(ANSWER_IS_NO)
