"""A program: chaos on an installation of its own, for some seconds, from a seed. Run as a module.

It makes a folder with keys, a private database, an agent and workers; submits, cancels and resolves jobs
while it kills, stops and cuts off at random; lets everything come to its end; and checks every history. The
last line of its output is one JSON object; the exit code is 1 if anything was wrong.
"""

import argparse
import importlib
import json
import os
import signal
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from chp_site.install import Places, prepare, register
from tests.engine.limits import OVERALL
from tests.engine.pool import ROOT, Pool
from tests.engine.private_database import PrivateDatabase, PrivatePostgreSQL, PrivateSQLite

# More slots than MAX_WORKERS has places.
WORKERS = 4
SLOTS = 2
# Silence of 2.5 s is a lost worker: less than the longest freeze of one, or hold of the database.
QUICK = {
    "CHP_HEARTBEAT_SECONDS": "0.5",
    "CHP_STALE_BEATS": "5",
    "CHP_POLL_SECONDS": "0.1",
    "CHP_BUSY_DELAY_SECONDS": "0.2",
    "CHP_ANCHOR_SECONDS": "2",
    "MAX_WORKERS": str(OVERALL),
}


def main() -> int:
    """Make chaos as the command line says."""
    chosen = _arguments()
    signal.signal(signal.SIGTERM, _leave)
    print(f"chaos on {chosen.database} for {chosen.seconds:g} s, seed {chosen.seed}", flush=True)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ends:
        report = _chaos(chosen, ends)
    print(json.dumps({"database": chosen.database, "seed": chosen.seed, **report}))
    return 1 if report["wrong"] else 0


def _chaos(chosen: argparse.Namespace, ends: ExitStack) -> dict[str, Any]:
    database: PrivateDatabase = (
        PrivateSQLite(chosen.folder) if chosen.database == "sqlite" else PrivatePostgreSQL()
    )
    ends.callback(database.stop)
    places = Places(chosen.folder, chosen.folder / "hosting.conf", "chaos", "chaos", "127.0.0.1:9")
    prepare(places, https=False, hosts="localhost", test_domains=True)
    os.environ.update(_environment(places, database.url))
    register(places)
    # Only now: models can be imported once Django is set up, which needs the environment above.
    driver = importlib.import_module("tests.engine.driver")
    agent = importlib.import_module("tests.engine.private_agent").PrivateAgent(places)
    ends.callback(agent.stop)
    pool = Pool(os.environ, chosen.folder / "workers.log", WORKERS, SLOTS)
    ends.callback(pool.end)
    troubles = [*database.troubles(), agent.kill]
    done = driver.Driver(pool, troubles, chosen.folder / "marks", chosen.seed).run(chosen.seconds)
    return asdict(done)


def _environment(places: Places, url: str) -> dict[str, str]:
    return {
        **QUICK,
        "CHP_CONFIG": str(places.config),
        "CHP_STATE_DIR": str(places.state),
        "CHP_DATABASE_URL": url,
        "CHP_ALLOW_TEST_DOMAINS": "1",
        "CHP_HTTPS": "0",
        "DJANGO_SETTINGS_MODULE": "tests.engine.settings",
        "PYTHONPATH": str(ROOT),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make chaos for a while and check that nothing came of it.")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=Random().randrange(10**6))
    parser.add_argument(
        "--folder", type=Path, required=True, help="for everything that it makes; it is left there"
    )
    return parser.parse_args()


def _leave(number: int, frame: object) -> None:
    # An orderly end: nothing that was started is left behind.
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
