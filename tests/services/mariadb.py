"""A private MariaDB for a test run: own folder and socket, a free loopback port, stopped by its handle."""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.services.availability import missing

TOOLS = ("mariadbd", "mariadb-install-db", "mariadb-admin", "mariadb", "mariadb-dump")
SEARCHED = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"))
SERVER_SETTINGS = """[mariadbd]
datadir={folder}/data
socket={folder}/server.sock
pid-file={folder}/server.pid
log-error={folder}/server.log
port={port}
bind-address=127.0.0.1
skip-name-resolve
skip-log-bin
innodb_buffer_pool_size=64M
innodb_log_file_size=96M
innodb_flush_log_at_trx_commit=0
innodb_doublewrite=0
innodb_use_native_aio=0
performance_schema=OFF
max_connections=60
max_allowed_packet=256M
character-set-server=utf8mb4
collation-server=utf8mb4_unicode_ci
"""


@dataclass(frozen=True)
class MariaDB:
    """A running server, and the file that lets the agent in."""

    folder: Path
    port: int
    password: str
    defaults_file: Path

    def execute(self, statements: str, database: str = "") -> str:
        """Have statements done by the real client and give what it prints, columns by tabs."""
        command = [
            _tool("mariadb"),
            f"--defaults-file={self.defaults_file}",
            "--batch",
            "--skip-column-names",
        ]
        command += ["--default-character-set=utf8mb4", "--max-allowed-packet=256M"]
        done = subprocess.run(
            [*command, database], input=statements.encode(), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDB]:
    """Give a running server with an administrator who needs a password; skip where it is not installed."""
    absent = [tool for tool in TOOLS if not _tool(tool)]
    if absent:
        missing("mariadb", f"not installed: {', '.join(absent)}")
    if os.geteuid() != 0:
        missing("mariadb", "the server is started as its own user, which needs root")
    folder = Path(tempfile.mkdtemp(prefix="chp-mariadb-"))
    # The server's user must be able to enter.
    folder.chmod(0o755)
    process = None
    try:
        server, process = _start(folder)
        yield server
    finally:
        _stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path) -> tuple[MariaDB, "subprocess.Popen[bytes]"]:
    port = _free_port()
    settings = folder / "server.cnf"
    settings.write_text(SERVER_SETTINGS.format(folder=folder, port=port))
    os.chown(folder, pwd.getpwnam("mysql").pw_uid, -1)
    install = [_tool("mariadb-install-db"), f"--defaults-file={settings}", "--user=mysql", "--skip-test-db"]
    # Else root would be let in by its system user alone, and a password would prove nothing.
    install.append("--auth-root-authentication-method=normal")
    subprocess.run(install, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    process = subprocess.Popen(
        [_tool("mariadbd"), f"--defaults-file={settings}", "--user=mysql"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait_until_it_answers(folder, process)
        return _with_administrator(folder, port), process
    except BaseException:
        _stop(process)
        raise


def _with_administrator(folder: Path, port: int) -> MariaDB:
    password = secrets.token_hex(12)
    defaults = folder / "agent.cnf"
    defaults.touch(mode=0o600)
    server = MariaDB(folder, port, password, defaults)
    defaults.write_text(f"[client]\nsocket={folder}/server.sock\nuser=root\n")
    server.execute(f"ALTER USER root@localhost IDENTIFIED BY '{password}'")
    defaults.write_text(f"[client]\nsocket={folder}/server.sock\nuser=root\npassword={password}\n")
    server.execute("SELECT 1")
    return server


def _wait_until_it_answers(folder: Path, process: "subprocess.Popen[bytes]", seconds: float = 30) -> None:
    ping = [_tool("mariadb-admin"), "--no-defaults", f"--socket={folder}/server.sock", "--user=root", "ping"]
    ends = time.monotonic() + seconds
    while subprocess.run(ping, capture_output=True, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > ends:
            log = (folder / "server.log").read_text(errors="replace")[-3000:]
            raise AssertionError(f"MariaDB did not come up:\n{log}")
        time.sleep(0.05)


def _stop(process: "subprocess.Popen[bytes] | None") -> None:
    # Killed: nothing of it is needed any more, and an orderly end takes seconds.
    if process is not None:
        process.kill()
        process.wait()


def _tool(name: str) -> str:
    return shutil.which(name, path=SEARCHED) or ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
