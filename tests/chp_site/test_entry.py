"""The console scripts as they are installed: one line and code 2 where nothing is configured."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(sys.executable).parent


def _run(name: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("CHP_", "DJANGO_"))}
    return subprocess.run(
        [str(SCRIPTS / name), *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["hosting-job", "hosting-backup-list", "hosting-site"])
def test_without_keys_a_command_says_so_in_one_line(name: str, tmp_path: Path) -> None:
    done = _run(name, "list", CHP_STATE_DIR=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith(f"{name}: CHP_SECRET_KEY_FILE: cannot read {tmp_path}")
    assert done.stderr.count("\n") == 1


def test_a_database_that_is_not_there_is_named(tmp_path: Path) -> None:
    keys = {name: os.environ[name] for name in ("CHP_STATE_DIR", "CHP_HTTPS")}
    done = _run("hosting-job", "list", **keys, CHP_DATABASE_URL=f"sqlite:///{tmp_path}/no/such.sqlite3")
    assert done.returncode == 2
    assert "The panel's database cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
