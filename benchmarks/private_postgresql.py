"""A PostgreSQL of the benchmark's own: as initdb configures it, on a Unix socket in a folder of its own.

No setting is tuned: the peers' harness gives its own server none either.
"""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks import process_table

START_SECONDS = 60.0
PORT = 5432
_STATEMENT = re.compile(rb"LOG:  (?:statement|execute [^:]*): ")


class PrivatePostgreSQL:
    """A running server. As root it runs as the system's user postgres, since it refuses root."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="chp-bench-pg-"))
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self._run("initdb", "-D", self._data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C")
        self._process = self._start()

    @property
    def url(self) -> str:
        """The address of its database for administration."""
        return f"postgres://bench@{quote(str(self.folder), safe='')}:{PORT}/postgres"

    def cpu_seconds(self) -> float:
        """Give the processor time of all of the server's processes, the ended ones too, in seconds."""
        pid = self._process.pid
        return process_table.cpu_seconds([pid, *process_table.children(pid)])

    def logged_statements(self) -> int:
        """Count the statements in the server's log."""
        return len(_STATEMENT.findall((self.folder / "log").read_bytes()))

    def stop(self) -> None:
        """End the server and remove its folder."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    @cached_property
    def _user(self) -> pwd.struct_passwd | None:
        return pwd.getpwnam("postgres") if os.geteuid() == 0 else None

    def _start(self) -> "subprocess.Popen[bytes]":
        options = ["-k", str(self.folder), "-p", str(PORT), "-c", "listen_addresses="]
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [_program("postgres"), "-D", self._data, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **self._identity(),
            )
        ends = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)
        return process

    def _is_ready(self) -> bool:
        asked = [_program("pg_isready"), "-q", "-h", str(self.folder), "-p", str(PORT)]
        return subprocess.run(asked, check=False).returncode == 0

    def _run(self, name: str, *arguments: str) -> None:
        subprocess.run(
            [_program(name), *arguments], check=True, capture_output=True, cwd="/", **self._identity()
        )

    def _identity(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


def programs() -> Path:
    """Give the folder of the newest server's programs. Raises RuntimeError where there is none."""
    installed = list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if installed:
        return max(installed, key=lambda path: float(path.parent.parent.name)).parent
    found = shutil.which("initdb")
    if found is None:
        raise RuntimeError("PostgreSQL is not installed; on Debian: apt-get install postgresql")
    return Path(found).resolve().parent


def _program(name: str) -> str:
    return str(programs() / name)
