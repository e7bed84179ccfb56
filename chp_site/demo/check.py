"""`make demo-check`: the whole road once, without a browser; the last line is one JSON object."""

import argparse
import json
import secrets
import signal
import sys

from chp_site.demo.processes import StartFailed
from chp_site.demo.stage import stage


def main() -> None:
    """Entry of hosting-demo-check: exit code 0 where everything came back as it was, else 1."""
    parser = argparse.ArgumentParser(
        prog="hosting-demo-check",
        description="Provision, serve, back up, verify, damage and restore a site, and compare every byte.",
    )
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    chosen = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(_check(quiet=chosen.json))
    except (StartFailed, KeyboardInterrupt) as error:
        sys.stdout.write(json.dumps({"ok": False, "reason": str(error) or "interrupted"}) + "\n")
        sys.exit(1)


def _check(*, quiet: bool) -> int:
    with stage() as made:
        options = ["--state", str(made.state), "--panel", made.panel, "--web", made.web]
        code = made.processes.call(
            "road", "manage.py", "hosting_demo_road", *options, secret=f"demo-{secrets.token_hex(8)}"
        )
        report = made.processes.tail("road", 200)
        if code not in (0, 1) or not report:
            raise StartFailed(f"the road broke off with code {code}: {report}")
        sys.stdout.write((report.splitlines()[-1] if quiet else report) + "\n")
        return code
