"""The page on restoring by hand: its own commands, run by bash on a real backup."""

import os
import re
import shlex
import shutil
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from agent.declarations.backup import DatabaseRef
from tests.agent.actions import trees
from tests.agent.actions.ground import Ground
from tests.agent.actions.web import ROOT
from tests.services.availability import missing
from tests.services.mariadb import MariaDB

PAGE = ROOT / "docs" / "how-to" / "restore-by-hand.md"
AWKWARD_NAME = b"-b\xff\\x41 \n.sqlite3"


@pytest.fixture(autouse=True)
def _tools() -> None:
    absent = [tool for tool in ("bash", "tar", "zstd", "sqlite3") if not shutil.which(tool)]
    if absent:
        missing("restore-by-hand", f"not installed: {', '.join(absent)}")


@pytest.fixture
def site(ground: Ground) -> Ground:
    """Give a server with a site that has an awkward tree and two SQLite databases."""
    home = ground.make_home()
    trees.awkward(home)
    for name in (b"shop.sqlite3", AWKWARD_NAME):
        path = os.fsdecode(os.path.join(os.fsencode(home / "data"), name))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)")
            connection.executemany("INSERT INTO orders (note) VALUES (?)", [("ü\n",), ("two",)])
            connection.commit()
        os.chmod(path, 0o640)
    ground.give()
    return ground


def script(site: Ground) -> str:
    """Give all commands of the page, with this test's folders in the place of the page's."""
    commands = "\n".join(re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    for name, path in (("BACKUP", site.artifact()), ("SITE", site.home())):
        commands, count = re.subn(
            rf"^{name}=.*$", f"{name}={shlex.quote(str(path))}", commands, flags=re.MULTILINE
        )
        assert count == 1
    return commands


def run(site: Ground, home: Path | None = None) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(home or "/nonexistent"),
    }
    return subprocess.run(
        ["bash"], input=script(site), env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def rows(site: Ground) -> list[list[tuple[int, str]]]:
    """Give the rows of both databases."""
    found = []
    for name in (b"shop.sqlite3", AWKWARD_NAME):
        path = os.fsdecode(os.path.join(os.fsencode(site.home() / "data"), name))
        with closing(sqlite3.connect(path)) as connection:
            found.append(connection.execute("SELECT * FROM orders").fetchall())
    return found


def files(site: Ground) -> trees.Description:
    """Describe the home but the contents of its databases and the times of what lies around them."""
    described = trees.described(site.home())
    for path in [path for path in described if path.split(b"/")[0] in (b".", b"data")]:
        described[path] = described[path][:2]
    return described


def test_the_page_s_commands_restore_every_byte_and_row(site: Ground) -> None:
    before, held = files(site), rows(site)
    site.back_up()
    (site.home() / "htdocs" / "index.html").write_text("defaced")
    (site.home() / "data" / "shop.sqlite3").write_bytes(b"")
    done = run(site)
    assert done.returncode == 0, done.stderr
    assert rows(site) == held == [[(1, "ü\n"), (2, "two")]] * 2
    assert trees.differences(before, files(site)) == []
    assert (site.home().with_name("1.before") / "htdocs" / "index.html").read_text() == "defaced"


def test_a_damaged_file_ends_it_before_anything_is_made(site: Ground) -> None:
    site.back_up()
    archive = site.artifact() / "files.tar.zst"
    archive.write_bytes(archive.read_bytes()[:-1])
    done = run(site)
    assert done.returncode != 0 and "files.tar.zst: FAILED" in done.stdout
    assert sorted(os.listdir(site.policy.sites_root)) == [".scratch", "1"]


def test_a_gzip_backup_is_restored_by_the_same_commands(
    site: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.archive.streams.has_tool", lambda name: name != "zstd")
    before, held = files(site), rows(site)
    site.back_up()
    assert (site.artifact() / "files.tar.gz").exists()
    assert site.verify()["verified"]
    done = run(site)
    assert done.returncode == 0, done.stderr
    assert (rows(site), trees.differences(before, files(site))) == (held, [])


def test_the_page_s_commands_load_a_server_database(
    site: Ground, mariadb_server: MariaDB, folder: Path
) -> None:
    mariadb_server.execute("CREATE DATABASE hand; CREATE DATABASE hand_second")
    mariadb_server.execute(
        "CREATE TABLE t (x INT, b LONGBLOB); INSERT INTO t VALUES (1, X'00FF0A0D')", "hand"
    )
    mariadb_server.execute("CREATE PROCEDURE p() SELECT 'ü'", "hand")
    policy = replace(site.policy, mariadb_defaults_file=mariadb_server.defaults_file)
    references = (DatabaseRef("mariadb", "hand"), DatabaseRef("mariadb", "hand_second"))
    Ground(policy, references).back_up()
    (folder / ".my.cnf").write_text(mariadb_server.defaults_file.read_text())
    (folder / ".my.cnf").chmod(0o600)
    try:
        done = run(site, home=folder)
        assert done.returncode == 0, done.stderr
        found = mariadb_server.execute("SELECT x, HEX(b) FROM t; CALL p()", "hand_restored")
        assert found == "1\t00FF0A0D\nü\n"
        assert mariadb_server.execute("SHOW TABLES", "hand_second_restored") == ""
    finally:
        for name in ("hand", "hand_second", "hand_restored", "hand_second_restored"):
            mariadb_server.execute(f"DROP DATABASE IF EXISTS `{name}`")
