"""cancel, retry and resolve of hosting-job."""

import sys
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandParser

from accounts.actor import Actor
from audit import trail
from chp_site.console import ANSWER_IS_NO, BAD_USAGE, REFUSALS, HostingCommand
from chp_site.job_output import data_of, event_data
from chp_site.tables import facts, moment, table
from jobs import pipeline, waiting
from jobs.evidence import MOST_EVENTS, Decision, Evidence, evidence
from jobs.management.verb import Options, Verb, bad_usage, one_job, require_overview, say
from jobs.models import Job
from jobs.queries import jobs_visible_to
from jobs.states import Status

# How many of the jobs that were called off with one are named.
MOST_NAMED = 10

Decide = Callable[[Actor, int, str], Job]


def several_arguments(parser: CommandParser) -> None:
    """Add which jobs, and why."""
    # One at least: no code never stands for all jobs.
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="codes such as JOB-000241")
    parser.add_argument("--reason", required=True, help="kept in the history and the audit trail")


def resolve_arguments(parser: CommandParser) -> None:
    """Add which job, what is decided, and why."""
    parser.add_argument("job", help="a code such as JOB-000241")
    parser.add_argument(
        "--outcome",
        choices=[decision.value for decision in Decision],
        help="without it, the evidence is shown and nothing is changed",
    )
    parser.add_argument("--reason", default="", help="kept in the history and the audit trail")


def cancel(command: HostingCommand, actor: Actor, options: Options) -> Any:
    """Call jobs off."""
    return _each(command, actor, options, pipeline.cancel)


def retry(command: HostingCommand, actor: Actor, options: Options) -> Any:
    """Queue failed jobs again."""
    return _each(command, actor, options, pipeline.retry)


def resolve(command: HostingCommand, actor: Actor, options: Options) -> Any:
    """Decide what becomes of a job; without an outcome show what there is to look at, and decide nothing."""
    job = one_job(actor, options["job"])
    if options["outcome"] is None:
        require_overview(actor)
        found = evidence(job)
        _show_evidence(command, found, options)
        sys.exit(BAD_USAGE if found.options else ANSWER_IS_NO)
    if not options["reason"].strip():
        raise bad_usage("--outcome needs --reason: say what was found; it is kept in the audit trail.")
    job = _decided(actor, job, Decision(options["outcome"]), options["reason"])
    say(command, options, _line(job, actor))
    return data_of(job, actor)


def _decided(actor: Actor, job: Job, decision: Decision, reason: str) -> Job:
    if decision is Decision.RETRY:
        return pipeline.retry(actor, job.pk, reason)
    return pipeline.resolve(actor, job.pk, Status(decision.value), reason)


def _each(command: HostingCommand, actor: Actor, options: Options, decide: Decide) -> Any:
    """Decide every job by itself. A refusal is told and makes the exit code; the others are done."""
    if len(options["jobs"]) == 1:
        job = decide(actor, one_job(actor, options["jobs"][0]).pk, options["reason"])
        say(command, options, _line(job, actor))
        return data_of(job, actor)
    told, refused = [], False
    for code in dict.fromkeys(options["jobs"]):
        before = trail.denials_recorded()
        try:
            job = decide(actor, one_job(actor, code).pk, options["reason"])
        except REFUSALS as error:
            refused = True
            told.append({"job": code, "error": _refusal(command, options, error, before)})
        else:
            say(command, options, _line(job, actor))
            told.append(data_of(job, actor))
    if refused:
        if options["as_json"]:
            command.print_json(told)
        sys.exit(ANSWER_IS_NO)
    return told


def _refusal(command: HostingCommand, options: Options, error: Exception, before: int) -> dict[str, str]:
    """Tell one refusal among several, as the base tells the only one."""
    if trail.denials_recorded() == before:
        command._record(error, options)
    if not options["as_json"]:
        command.stderr.write(str(error))
    return {"code": str(getattr(error, "code", "refused")), "message": str(error)}


def _line(job: Job, actor: Actor) -> str:
    match job.status:
        case Status.QUEUED:
            after = f"; {waiting.explain([job], actor)[job.pk]}"
        case Status.CANCEL_REQUESTED:
            after = "; it stops at its next checkpoint"
        case Status.CANCELLED:
            after = _with_it(job, actor)
        case Status.RESOLVED | Status.FAILED:
            after = "; its site is open again" + _with_it(job, actor)
        case _:
            after = ""
    return f"{job.code}: {job.get_status_display()}{after}"


def _with_it(job: Job, actor: Actor) -> str:
    """Tell which jobs were called off with this one, which they waited for."""
    others = jobs_visible_to(actor).filter(cancelled_with=job).order_by("pk")
    names = [other.code for other in others[:MOST_NAMED]]
    if len(names) == MOST_NAMED and (more := others.count() - MOST_NAMED):
        names.append(f"{more} more")
    return f"; called off with it: {', '.join(names)}" if names else ""


def _show_evidence(command: HostingCommand, found: Evidence, options: Options) -> None:
    if options["as_json"]:
        command.print_json(_evidence_data(found))
    else:
        command.stdout.write(_evidence_text(found))


def _evidence_data(found: Evidence) -> dict[str, Any]:
    return {
        "job": data_of(found.job),
        "worker": found.worker,
        "last_beat": found.last_beat,
        "worker_polled_at": found.worker_polled_at,
        "events": [event_data(line) for line in found.events],
        "journal": [
            {
                "step": line.step,
                "claim": line.claim,
                "action": line.action,
                "state": line.state,
                "at": line.at,
            }
            for line in found.journal
        ],
        "journal_says": found.journal_says,
        "options": {option.decision.value: option.sentence for option in found.options},
        "note": found.note,
    }


def _evidence_text(found: Evidence) -> str:
    job = found.job
    known = facts(
        [
            ("Job", f"{job.code} ({job.job_type}, {job.status} on {job.site or 'no site'})"),
            ("Error", job.error_message),
            ("Worker", found.worker or "none"),
            ("Last beat", moment(found.last_beat) or "none"),
            ("Worker last polled", moment(found.worker_polled_at)),
        ]
    )
    rows = [(moment(line.at), line.level, line.event_type, line.message) for line in found.events]
    history = table(("TIME (UTC)", "LEVEL", "EVENT", "MESSAGE"), rows)
    if len(rows) == MOST_EVENTS:
        history += f"\n(the last {MOST_EVENTS}; all: hosting-job events {job.code})"
    parts = [known, history, f"The agent's journal:\n{_journal_text(found)}", _options_text(found)]
    return "\n\n".join(parts)


def _journal_text(found: Evidence) -> str:
    rows = [
        (moment(line.at), line.state, f"{line.step} of claim {line.claim}", line.action)
        for line in found.journal
    ]
    listed = table(("TIME (UTC)", "STATE", "STEP", "ACTION"), rows) + "\n" if rows else ""
    return f"{listed}{found.journal_says}"


def _options_text(found: Evidence) -> str:
    code = found.job.code
    said = [f"  {option.decision.value}: {option.sentence}" for option in found.options]
    if said:
        said = ["What can be decided:", *said]
        said.append(
            f'Nothing was changed. Decide with\n  hosting-job resolve {code} --outcome ... --reason "..."'
        )
    return "\n".join([*said, *([found.note] if found.note else [])])


CANCEL = Verb("call jobs off", several_arguments, cancel)
RETRY = Verb("queue failed jobs again", several_arguments, retry)
RESOLVE = Verb("decide what becomes of a job that waits for a person", resolve_arguments, resolve)
