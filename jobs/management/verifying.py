"""verify of hosting-job."""

import sys
from typing import Any

from accounts.actor import Actor
from chp_site.console import ANSWER_IS_NO, HostingCommand
from chp_site.tables import table
from jobs.bookkeeping import Discrepancy, discrepancies
from jobs.management.overviews import no_arguments
from jobs.management.verb import Options, Verb, require_overview, say


def verify(command: HostingCommand, actor: Actor, options: Options) -> Any:
    """Print the jobs in another state than the audit trail tells of; exit code 1 where there are any."""
    require_overview(actor)
    found = list(discrepancies())
    say(command, options, _text(found))
    told = [_data(one) for one in found]
    if found:
        if options["as_json"]:
            command.print_json({"discrepancies": told})
        sys.exit(ANSWER_IS_NO)
    return {"discrepancies": told}


def _text(found: list[Discrepancy]) -> str:
    if not found:
        return "Every job is in the state that the audit trail tells of."
    rows = [[one.job.code, one.job.job_type, one.job.status, one.told or "nothing"] for one in found]
    many = "1 job was" if len(found) == 1 else f"{len(found)} jobs were"
    lines = [f"{many} changed without an entry in the trail.", "See docs/runbooks/audit-broken.md."]
    return "\n".join([table(["JOB", "TYPE", "IS", "TRAIL SAYS"], rows), *lines])


def _data(one: Discrepancy) -> dict[str, str | None]:
    return {
        "job": one.job.code,
        "type": one.job.job_type,
        "status": one.job.status,
        "trail": one.told or None,
    }


VERIFY = Verb("compare the states of jobs with the audit trail", no_arguments, verify)
