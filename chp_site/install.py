"""hosting-setup: make the keys, folders and configuration of an installation, and register its own server."""

import argparse
import os
import pwd
import secrets
import shutil
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import django
from django.core.management import call_command

from audit import keys as audit_keys

CONFIG = """\
# Read by every process of the panel; the environment wins over this file.
CHP_STATE_DIR={state}
CHP_HTTPS={https}
CHP_ALLOWED_HOSTS={hosts}
CHP_ALLOW_TEST_DOMAINS={test_domains}
MAX_WORKERS=2
MAX_BACKUP_WORKERS=1
MAX_RESTORE_WORKERS=1
MAX_REPAIR_WORKERS=1
"""
POLICY = """\
# Policy of this server's agent. Nothing remote can change it.
server = "{server}"
socket = "{run}/agent.sock"
state_dir = "{agent_state}"
lock_dir = "{locks}"
sites_root = "{sites}"
allowed_uids = [{uid}]
socket_group = {gid}
allowed_actions = ["*"]
uid_base = 20000

[keys]
{key_id} = "{agent_key}"

[stores]
archive = "{backups}"

[web]
driver = "builtin"
config_dir = "{web}"
address = "{web_address}"
"""


@dataclass(frozen=True)
class Places:
    """Where an installation keeps its things; all below one folder unless said otherwise."""

    state: Path
    config: Path
    server: str
    key_id: str
    web_address: str
    # Who runs the panel and its workers; the agent answers to nobody else.
    panel_uid: int = field(default_factory=os.getuid)
    panel_gid: int = field(default_factory=os.getgid)

    @property
    def policy(self) -> Path:
        return self.state / "agent" / "agent.toml"

    def folders(self) -> dict[Path, int]:
        """Give every folder with its mode. Sites must be reachable for their owners and the web server."""
        state = self.state
        return {
            state: 0o755,
            state / "keys": 0o700,
            state / "keys" / "agents": 0o700,
            state / "anchors": 0o700,
            state / "static": 0o755,
            state / "database": 0o700,
            state / "run": 0o755,
            state / "locks": 0o700,
            state / "agent": 0o700,
            state / "backups": 0o700,
            state / "web": 0o755,
            state / "sites": 0o755,
        }


def prepare(places: Places, *, https: bool, hosts: str, test_domains: bool) -> None:
    """Make folders, keys, configuration and policy. What exists is kept as it is."""
    for folder, mode in places.folders().items():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)
    _make_keys(places)
    values = {"state": places.state, "https": int(https), "hosts": hosts, "test_domains": int(test_domains)}
    _write_new(places.config, CONFIG.format(**values), 0o644)
    _write_new(places.policy, _policy(places), 0o600)


def register(places: Places) -> None:
    """Migrate the database and put this server into the inventory, once."""
    os.environ["CHP_CONFIG"] = str(places.config)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chp_site.settings")
    django.setup()
    call_command("migrate", verbosity=0, interactive=False)
    call_command("hosting_schedules")
    call_command("hosting_register_server", *_server_options(places))


def _server_options(places: Places) -> list[str]:
    socket = places.state / "run" / "agent.sock"
    return [places.server, "--socket", str(socket), "--key-id", places.key_id, "--web", places.web_address]


def _make_keys(places: Places) -> None:
    keys = places.state / "keys"
    _write_new(keys / "secret.key", secrets.token_urlsafe(48) + "\n", 0o600)
    if not (keys / "audit.key").exists():
        audit_keys.create(keys / "audit.key")
    panels = keys / "agents" / f"{places.key_id}.key"
    _write_new(panels, secrets.token_urlsafe(48), 0o600)
    agents = places.state / "agent" / f"{places.key_id}.key"
    if not agents.exists():
        # The agent's own copy, so that panel and agent may run as different users.
        shutil.copyfile(panels, agents)
        agents.chmod(0o600)


def _policy(places: Places) -> str:
    state = places.state
    return POLICY.format(
        server=places.server,
        run=state / "run",
        agent_state=state / "agent",
        locks=state / "locks",
        sites=state / "sites",
        uid=places.panel_uid,
        gid=places.panel_gid,
        key_id=places.key_id,
        agent_key=state / "agent" / f"{places.key_id}.key",
        backups=state / "backups",
        web=state / "web",
        web_address=places.web_address,
    )


def _hand_over(places: Places) -> None:
    """Give the panel's own folders to its user. All else, and the folder above, stays with who runs this."""
    if os.geteuid() != 0:
        return
    for part in ("keys", "anchors", "static", "database"):
        for path in [places.state / part, *(places.state / part).rglob("*")]:
            os.chown(path, places.panel_uid, places.panel_gid, follow_symlinks=False)


def _write_new(path: Path, text: str, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _places(chosen: argparse.Namespace) -> Places:
    state, config = chosen.state.resolve(), chosen.config.resolve()
    if not chosen.panel_user:
        return Places(state, config, chosen.server, chosen.server, chosen.web_address)
    try:
        user = pwd.getpwnam(chosen.panel_user)
    except KeyError:
        sys.exit(f"hosting-setup: there is no system user {chosen.panel_user!r}; make it first")
    return Places(state, config, chosen.server, chosen.server, chosen.web_address, user.pw_uid, user.pw_gid)


def _require_same_server(places: Places) -> None:
    """Leave where the installation that is here belongs to another server name."""
    if not places.policy.exists():
        return
    found = tomllib.loads(places.policy.read_text(encoding="utf-8")).get("server")
    if found != places.server:
        sys.exit(f"hosting-setup: {places.policy} is for server {found!r}; give that name or another --state")


def main() -> None:
    """Entry of hosting-setup."""
    parser = argparse.ArgumentParser(
        prog="hosting-setup",
        description="Make the keys, folders and configuration of an installation. What exists is kept.",
    )
    parser.add_argument(
        "--state", type=Path, default=Path("/var/lib/cresignsys"), help="folder of the installation"
    )
    parser.add_argument("--config", type=Path, default=Path("/etc/cresignsys/hosting.conf"))
    parser.add_argument("--server", default="local", help="name of this server")
    parser.add_argument(
        "--web-address", default="127.0.0.1:8081", help="where the web server for sites answers"
    )
    parser.add_argument("--hosts", default="localhost,127.0.0.1", help="host names of the panel")
    parser.add_argument(
        "--panel-user", help="system user that runs the panel and its workers; made beforehand"
    )
    parser.add_argument("--no-https", action="store_true", help="for a trial on one machine only")
    parser.add_argument("--test-domains", action="store_true", help="allow sites under .test")
    chosen = parser.parse_args()
    places = _places(chosen)
    _require_same_server(places)
    try:
        places.config.parent.mkdir(parents=True, exist_ok=True)
        prepare(places, https=not chosen.no_https, hosts=chosen.hosts, test_domains=chosen.test_domains)
        register(places)
        _hand_over(places)
    except OSError as error:
        hint = "" if os.geteuid() == 0 else "; run it as root, or give --state and --config"
        sys.exit(f"hosting-setup: {error.strerror}: {error.filename}{hint}")
    sys.stdout.write(f"Ready. Configuration: {places.config}\nAgent's policy: {places.policy}\n")
