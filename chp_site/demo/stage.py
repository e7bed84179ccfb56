"""An installation of its own in a temporary folder, with all its processes running."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chp_site.demo.processes import Processes, free_port
from chp_site.install import Places, prepare, register

SERVER = "local"


@dataclass(frozen=True)
class Stage:
    """Where everything is: the state folder, the panel's and the sites' web addresses (HOST:PORT)."""

    state: Path
    panel: str
    web: str
    places: Places
    processes: Processes


@contextmanager
def stage(panel_port: int = 0, web_port: int = 0) -> Iterator[Stage]:
    """Set up an installation, start its processes, and take all of it away at the end.

    Raises StartFailed with the log of what did not come up.
    """
    state = Path(tempfile.mkdtemp(prefix="chp-demo-"))
    try:
        web = f"127.0.0.1:{free_port(web_port)}"
        panel = f"127.0.0.1:{free_port(panel_port)}"
        places = Places(state, state / "hosting.conf", SERVER, SERVER, web)
        prepare(places, https=False, hosts="localhost,127.0.0.1", test_domains=True)
        register(places)
        (state / "logs").mkdir(mode=0o700)
        environment = {
            "CHP_CONFIG": str(places.config),
            "DJANGO_SETTINGS_MODULE": "chp_site.settings",
            "CHP_POLL_SECONDS": "0.3",
        }
        with Processes(environment, state / "logs") as processes:
            made = Stage(state, panel, web, places, processes)
            _start(made)
            yield made
    finally:
        shutil.rmtree(state, ignore_errors=True)


def _start(made: Stage) -> None:
    processes = made.processes
    processes.start("agent", "-m", "agent", "serve", "--policy", str(made.places.policy))
    config = str(made.state / "web")
    processes.start(
        "sites-web", "-m", "agent.tools.web_server", "--config-dir", config, "--address", made.web
    )
    # Whether a proxy's headers count is the settings' to say (CHP_BEHIND_PROXY), not the server's.
    options = ["--workers", "2", "--bind", made.panel, "--no-control-socket", "--forwarded-allow-ips="]
    processes.start("panel", "-m", "gunicorn", *options, "chp_site.wsgi")
    start_worker(made)
    processes.start("scheduler", "manage.py", "qcluster")
    processes.wait_for_socket("agent", made.state / "run" / "agent.sock")
    processes.wait_for_port("sites-web", made.web)
    processes.wait_for_port("panel", made.panel)


def start_worker(made: Stage) -> None:
    """Start the worker, or start it again."""
    made.processes.start("worker", "manage.py", "hosting_worker", "--name", "worker-01")
