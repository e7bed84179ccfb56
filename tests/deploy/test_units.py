"""The systemd units: accepted by systemd's own checker, and as the architecture page says."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from chp_site.operations import OPERATIONS
from tests.architecture.source import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
ANALYZE = shutil.which("systemd-analyze")
UNPRIVILEGED = ("cresignsys-worker", "cresignsys-web", "cresignsys-qcluster")


def service(name: str) -> dict[str, str]:
    """Give the section [Service] of a unit."""
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "deploy" / "systemd" / f"{name}.service")
    return dict(unit["Service"])


def complaints(folder: Path, unit: Path) -> str:
    """Let systemd check a copy whose programs exist here. Only what it prints counts, not its exit code."""
    text = re.sub(r"^(Exec\w+=)\S+", r"\1/bin/true", unit.read_text(), flags=re.MULTILINE)
    copy = folder / unit.name
    copy.write_text(text.replace("/opt/cresignsys", str(folder)))
    assert ANALYZE is not None
    done = subprocess.run([ANALYZE, "verify", copy], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed: units are not checked")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_has_nothing_to_say_about_it(unit: Path, tmp_path: Path) -> None:
    assert complaints(tmp_path, unit) == ""


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed: units are not checked")
def test_systemd_says_what_is_wrong(tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "broken.service"
    broken.parent.mkdir()
    broken.write_text("[Service]\nExecStart=/bin/sh\nKillMode=gently\n")
    assert "gently" in complaints(tmp_path, broken)


def test_the_units_are_those_that_the_install_page_names() -> None:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    assert set(re.findall(r"cresignsys-[a-z]+(?=\.service)", page)) == {unit.stem for unit in UNITS}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_process_that_ends_is_started_again(unit: Path) -> None:
    values = service(unit.stem)
    assert (values["Restart"], values["RestartSec"]) == ("always", "5")


def test_a_stop_lets_the_workers_jobs_end() -> None:
    """The supervisor alone gets SIGTERM, and the longest job fits into the time it is given."""
    values = service("cresignsys-worker")
    hours, minutes = re.fullmatch(r"(\d+)h (\d+)min", values["TimeoutStopSec"]).groups()  # type: ignore[union-attr]
    assert values["KillMode"] == "mixed"
    assert int(hours) * 3600 + int(minutes) * 60 > max(operation.profile.timeout for operation in OPERATIONS)


def test_the_worker_speaks_for_itself() -> None:
    """Ready and alive by its own word; what it cannot help does not make it miss its watchdog."""
    values = service("cresignsys-worker")
    assert (values["Type"], values["NotifyAccess"]) == ("notify", "main")
    (minutes,) = re.fullmatch(r"(\d+)min", values["WatchdogSec"]).groups()  # type: ignore[union-attr]
    silence = settings.CHP_HEARTBEAT_SECONDS * settings.CHP_STALE_BEATS
    assert int(minutes) * 60 > max(silence, 2 * settings.SQLITE_OPTIONS["timeout"])
    assert "AF_UNIX" in values["RestrictAddressFamilies"].split()


def test_an_operation_outlives_the_agents_listener() -> None:
    assert service("cresignsys-agent")["KillMode"] == "process"


@pytest.mark.parametrize("name", UNPRIVILEGED)
def test_the_panels_processes_can_gain_nothing(name: str) -> None:
    values = service(name)
    assert values["User"] == "cresignsys"
    assert (values["NoNewPrivileges"], values["CapabilityBoundingSet"]) == ("yes", "")
    assert values["ProtectSystem"] == "strict"
    assert "keys" not in values["ReadWritePaths"]
