"""`make demo`: everything running in the foreground until Ctrl-C."""

import argparse
import secrets
import signal
import sys
import time

from chp_site.demo.processes import StartFailed
from chp_site.demo.stage import Stage, stage, start_worker

# Seconds that a worker must have lived to be started again.
SHORTEST_LIFE = 5.0
BANNER = """
CHP runs.

  Panel          http://{panel}/
  Admin          http://{panel}/admin/
  API            http://{panel}/api/v1/docs/
  Sites          http://{web}/   (with the site's name as Host header)
                 curl -H 'Host: nordlicht.test' http://{web}/

  Logins, all with the password   {password}
    nora     owner of Nordlicht Bakery: nordlicht.test, copper-club.test (READ_ONLY)
    viktor   may look at Nordlicht Bakery
    hanna    owner of Harbour Press: harbour-magazine.test
    admin    staff

  Commands for this demo, in another terminal:
    export CHP_CONFIG={config}
    .venv/bin/hosting-site list
    .venv/bin/hosting-backup nordlicht.test --wait

  Files and logs: {state}
  Ctrl-C ends the demo and removes its files.
"""


def main() -> None:
    """Entry of hosting-demo."""
    parser = argparse.ArgumentParser(
        prog="hosting-demo",
        description="Run a demo installation in the foreground: panel, worker, agent, sites.",
    )
    parser.add_argument("--port", type=int, default=8000, help="port of the panel; another if it is taken")
    parser.add_argument("--web-port", type=int, default=8081, help="port of the sites' web server")
    chosen = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with stage(chosen.port, chosen.web_port) as made:
            _furnish(made)
            _stay(made)
    except StartFailed as error:
        sys.exit(f"hosting-demo: {error}")
    except KeyboardInterrupt:
        sys.stdout.write("\nThe demo has ended and its files are removed.\n")


def _furnish(made: Stage) -> None:
    password = f"demo-{secrets.token_hex(4)}"
    sys.stdout.write("Making customers and sites ...\n")
    sys.stdout.flush()
    code = made.processes.call(
        "furnish", "manage.py", "hosting_demo_furnish", "--state", str(made.state), secret=password
    )
    if code:
        raise StartFailed(f"the demo's sites could not be made:\n{made.processes.tail('furnish')}")
    values = {"panel": made.panel, "web": made.web, "state": made.state, "config": made.places.config}
    sys.stdout.write(BANNER.format(password=password, **values))
    sys.stdout.flush()


def _stay(made: Stage) -> None:
    started = time.monotonic()
    while True:
        worker = made.processes.running["worker"]
        # One that dies at once would die again: it ends the demo, which says why.
        if worker.poll() is not None and time.monotonic() - started > SHORTEST_LIFE:
            # Kill it and see: that is what a demo is for. On a server systemd does this.
            sys.stdout.write(f"The worker has ended with code {worker.returncode}; another is started.\n")
            sys.stdout.flush()
            start_worker(made)
            started = time.monotonic()
        made.processes.require_alive()
        time.sleep(1)
