"""A private PostgreSQL for one test session: a free loopback port, its own folder, ended by its handle."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

SETTINGS = {
    "listen_addresses": "'127.0.0.1'",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
}
START_SECONDS = 30.0


class PostgreSQL:
    """A running server. As root it runs as the system's user postgres, since it refuses root."""

    def __init__(self) -> None:
        self._programs = max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version).parent
        self._folder = Path(tempfile.mkdtemp(prefix="chp-postgresql-"))
        self._who = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        if self._who is not None:
            os.chown(self._folder, self._who.pw_uid, self._who.pw_gid)
        self.port = _free_port()
        self._run(
            "initdb",
            "-D",
            self._data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
        )
        self._process = self._start()

    @property
    def url(self) -> str:
        """Where Django connects to."""
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def stop(self) -> None:
        """End the server and remove its folder."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def _start(self) -> "subprocess.Popen[bytes]":
        chosen = {**SETTINGS, "port": str(self.port), "unix_socket_directories": f"'{self._folder}'"}
        options = [
            part for name, value in chosen.items() for part in ("-c", f"{name}={value.strip(chr(39))}")
        ]
        log = (self._folder / "log").open("wb")
        process = subprocess.Popen(
            [str(self._programs / "postgres"), "-D", self._data, *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
            **self._user(),
        )
        ends = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"PostgreSQL did not start:\n{(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)
        return process

    def _is_ready(self) -> bool:
        done = subprocess.run(
            [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
        )
        return done.returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._programs / program), *arguments],
            check=True,
            capture_output=True,
            cwd="/",
            **self._user(),
        )

    def _user(self) -> dict[str, object]:
        if self._who is None:
            return {}
        return {"user": self._who.pw_uid, "group": self._who.pw_gid, "extra_groups": []}


def is_installed() -> bool:
    """Whether the server's programs are here."""
    return any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def _version(path: Path) -> float:
    return float(path.parent.parent.name)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
