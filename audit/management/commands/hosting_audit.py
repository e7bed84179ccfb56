"""hosting-audit: verify, export, anchor and list the trail."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import IO, Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from accounts.actor import Actor
from audit import anchor, trail
from audit.actions import Action
from audit.exceptions import AnchorRefused, AuditError
from audit.queries import Wanted, page
from audit.redaction import clean_text
from audit.snapshot import Snapshot
from audit.verification import Verification, verify_trail
from chp_site.console import ANSWER_IS_NO, BAD_USAGE, HostingCommand

_FILTERS = ("action", "actor", "tenant", "target")


class Command(HostingCommand):
    """The four things an operator does with the trail."""

    help = (
        "Verify, export, anchor or list the audit trail. Exit: 0 intact, 1 broken, 2 usage or configuration."
    )
    prog = "hosting-audit"

    def arguments(self, parser: CommandParser) -> None:
        """Add the four subcommands."""
        parser.set_defaults(has_subcommands=True)
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        self.common(verbs.add_parser("verify", help="verify every entry, the head and the last anchor"))
        export = verbs.add_parser(
            "export", help="write all entries as JSON lines, for verify.py and for keeping"
        )
        export.add_argument(
            "--output", metavar="FILE", help="a new file, readable by you only (default: print)"
        )
        anchored = verbs.add_parser("anchor", help="write where the trail ends into the anchor file")
        anchored.add_argument("--reason", default="", help="why by hand; kept in the trail")
        anchored.add_argument(
            "--after-restore",
            action="store_true",
            help="an older database was restored on purpose: put the anchor file aside and begin a new one",
        )
        listed = verbs.add_parser("list", help="show entries, newest first")
        for name in _FILTERS:
            listed.add_argument(f"--{name}", default="", help=f"only entries with exactly this {name}")
        listed.add_argument("--before", type=int, metavar="SEQUENCE", help="only entries before this one")
        listed.add_argument(
            "--limit", type=int, default=50, help="how many at most (default 50, at most 1000)"
        )
        for verb in (export, anchored, listed):
            self.common(verb)

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        """Do what the verb says. The trail is of all tenants: only who may operate sites may read it."""
        self._require_operator(actor)
        verbs = {"verify": self._verify, "export": self._export, "anchor": self._anchor, "list": self._list}
        try:
            return verbs[options["verb"]](actor, options)
        except AnchorRefused as error:
            raise CommandError(str(error), returncode=ANSWER_IS_NO) from error
        except AuditError as error:
            raise CommandError(str(error), returncode=BAD_USAGE) from error

    def handle(self, *args: Any, **options: Any) -> None:
        """Run, and turn a broken trail into the exit code once everything is printed."""
        self.broken = False
        super().handle(*args, **options)
        if self.broken:
            sys.exit(ANSWER_IS_NO)

    def _require_operator(self, actor: Actor) -> None:
        if actor.may_operate:
            return
        trail.record_denial(
            trail.Entry(Action.ACCESS_DENIED, actor.label, actor.kind, target="audit", result="denied")
        )
        raise CommandError(f"{actor.name} may not use the audit trail.", returncode=ANSWER_IS_NO)

    def _verify(self, actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        found = verify_trail()
        self.broken = found.verdict.problem is not None
        if not options["as_json"]:
            self.stdout.write(_in_words(found))
        return {
            "intact": not self.broken,
            "entries": found.verdict.entries,
            "last_mac": found.verdict.last_mac,
            "anchor": found.anchor.sequence if found.anchor else None,
            "problem": asdict(found.verdict.problem) if found.verdict.problem else None,
        }

    def _export(self, actor: Actor, options: dict[str, Any]) -> dict[str, Any] | None:
        with _opened(options["output"], self.stdout) as file:
            written = _write_export(file)
        if options["output"] is None:
            options["as_json"] = False  # the export itself stands on the output already
        elif not options["as_json"]:
            self.stdout.write(f"{written} entries written to {options['output']}")
        return {"entries": written, "file": options["output"]}

    def _anchor(self, actor: Actor, options: dict[str, Any]) -> dict[str, Any]:
        aside = None
        if options["after_restore"]:
            if not options["reason"].strip():
                raise CommandError(
                    "--after-restore needs --reason: say who restored what.", returncode=BAD_USAGE
                )
            aside = anchor.start_over()
        anchor.write_anchor()  # refuses before anything is recorded
        with transaction.atomic():
            data = {"anchor_file_put_aside": str(aside) if aside else None}
            entry = trail.Entry(
                Action.AUDIT_ANCHORED, actor.label, actor.kind, reason=options["reason"], data=data
            )
            trail.record(entry)
        written = anchor.write_anchor()
        if not options["as_json"]:
            self.stdout.write(f"Anchored at entry {written.sequence}, {written.at}.")
        return asdict(written)

    def _list(self, actor: Actor, options: dict[str, Any]) -> list[dict[str, Any]]:
        wanted = Wanted(**{name: options[name] for name in _FILTERS}, before=options["before"])
        found = page(wanted, options["limit"])
        if not options["as_json"]:
            for entry in found:
                # Cleaned once more: somebody else may have written the table.
                line = clean_text(f"{entry} {entry.result} {entry.reason}".rstrip())
                self.stdout.write(line.replace("\n", " "))
        names = ("sequence", "at", "actor", "actor_kind", "tenant", "action", "target", "reason", "result")
        return [
            {name: getattr(entry, name) for name in names} | {"data": _read(entry.data)} for entry in found
        ]


def _in_words(found: Verification) -> str:
    problem = found.verdict.problem
    if problem is not None:
        return f"BROKEN at entry {problem.sequence}: {problem.message}"
    anchored = "There is no anchor yet, so a cut-off end could not be noticed: run hosting-audit anchor."
    if found.anchor is not None:
        anchored = f"The last anchor is entry {found.anchor.sequence}."
    return f"Intact: {found.verdict.entries} entries. {anchored}"


@contextmanager
def _opened(name: str | None, standard: Any) -> Iterator[IO[str]]:
    if name is None:
        yield standard
        return
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise CommandError(f"Cannot make {name}: {error.strerror}.", returncode=BAD_USAGE) from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _write_export(file: IO[str]) -> int:
    written = 0
    snapshot = Snapshot()
    for row in snapshot:
        file.write(json.dumps(row, separators=(",", ":"), default=_unstorable) + "\n")
        written += 1
    head = asdict(snapshot.head) if snapshot.head else None
    # The last line: what is missing behind it was cut off the export itself.
    file.write(json.dumps({"head": head}) + "\n")
    return written


def _read(data: str) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data


def _unstorable(value: object) -> dict[str, str]:
    # Something that the panel never writes; as an object it is no text to any verifier.
    return {"unstorable": repr(value)}
