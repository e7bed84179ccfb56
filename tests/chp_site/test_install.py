"""hosting-setup: keys, folders, configuration; kept when it runs again; usable by the panel and the agent."""

import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT

SETUP = "import sys; from chp_site.install import main; sys.argv[0] = 'hosting-setup'; main()"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users may enter."""
    with tempfile.TemporaryDirectory(prefix="chp-setup-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _setup(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CHP_", "DJANGO_"))}
    return subprocess.run(
        [
            sys.executable,
            "-c",
            SETUP,
            "--state",
            str(folder / "state"),
            "--config",
            str(folder / "conf"),
            *arguments,
        ],
        cwd=ROOT,
        env={**kept, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def _check(folder: Path, *command: str, **more: object) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CHP_", "DJANGO_"))}
    environment = {**kept, "CHP_CONFIG": str(folder / "conf"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(  # type: ignore[call-overload,no-any-return]  # options pass through
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        **more,
    )


def test_an_installation_is_made_and_its_secrets_are_closed(folder: Path) -> None:
    done = _setup(folder)
    assert done.returncode == 0, done.stderr
    keys = folder / "state" / "keys"
    for path in (keys / "secret.key", keys / "audit.key", keys / "agents" / "local.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert _check(folder, "manage.py", "hosting_audit", "verify").returncode == 0
    assert (
        _check(folder, "-m", "agent", "check", "--policy", f"{folder}/state/agent/agent.toml").returncode == 0
    )


def test_a_second_run_keeps_everything(folder: Path) -> None:
    _setup(folder)
    kept = {path: path.read_bytes() for path in (folder / "state").rglob("*.key")}
    assert _setup(folder).returncode == 0
    assert {path: path.read_bytes() for path in (folder / "state").rglob("*.key")} == kept


def test_two_installations_have_no_key_in_common(folder: Path) -> None:
    """Panel-security S7."""
    one, two = folder / "one", folder / "two"
    for each in (one, two):
        each.mkdir()
        assert _setup(each).returncode == 0
    keys = [path.read_bytes() for path in folder.rglob("secret.key")] + [
        path.read_bytes() for path in folder.rglob("keys/agents/*.key")
    ]
    assert len(set(keys)) == len(keys) == 4


def test_production_settings_are_the_default(folder: Path) -> None:
    _setup(folder)
    checked = _check(folder, "manage.py", "check", "--deploy", "--fail-level", "WARNING")
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    "line",
    [
        "MAX_WORKERS=0",
        "MAX_WORKERS=two",
        "CHP_STALE_BEATS=2.5",
        "CHP_DATABASE_URL=mysql://x/y",
        "CHP_SECRET_KEY_FILE=/nonexistent",
    ],
)
def test_a_wrong_value_stops_the_start_with_its_name(folder: Path, line: str) -> None:
    _setup(folder)
    conf = folder / "conf"
    conf.write_text(conf.read_text().replace("MAX_WORKERS=2\n", "") + line + "\n")
    checked = _check(folder, "manage.py", "check")
    assert checked.returncode != 0
    assert line.partition("=")[0] in checked.stderr


def test_a_key_that_others_may_read_stops_the_start(folder: Path) -> None:
    _setup(folder)
    (folder / "state" / "keys" / "secret.key").chmod(0o644)
    checked = _check(folder, "manage.py", "check")
    assert checked.returncode != 0
    assert "chmod 600" in checked.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="handing over to another user needs root")
def test_the_panel_runs_as_its_own_user_and_cannot_touch_the_agents_part(folder: Path) -> None:
    """Rule 14: the panel is not privileged."""
    assert _setup(folder, "--panel-user", "nobody").returncode == 0
    nobody = pwd.getpwnam("nobody")
    state = folder / "state"
    owners = {
        part: (state / part).stat().st_uid for part in ("keys", "database", "agent", "sites", "backups")
    }
    assert owners == {"keys": nobody.pw_uid, "database": nobody.pw_uid, "agent": 0, "sites": 0, "backups": 0}
    assert f"allowed_uids = [{nobody.pw_uid}]" in (state / "agent" / "agent.toml").read_text()
    unknown = _setup(folder, "--panel-user", "no-such-user-here")
    assert unknown.returncode != 0
    assert "no system user" in unknown.stderr
