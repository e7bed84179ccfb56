"""SQLite databases of a live site: what committed is in the backup, what did not is not."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agent.databases import sqlite
from agent.exceptions import ActionFailed
from agent.runner import start_child
from tests.agent.actions.ground import Ground, unzstd


@pytest.fixture
def database(ground: Ground) -> Path:
    """Give the path of a database with ten committed orders."""
    path = ground.make_home() / "data" / "shop.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)")
        connection.execute('CREATE TABLE "od\'d"" name" (id INTEGER PRIMARY KEY AUTOINCREMENT)')
        add(connection, 10)
        connection.commit()
    ground.give()
    return path


def add(connection: sqlite3.Connection, count: int) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
    connection.execute(f"{numbers} INSERT INTO orders (note) SELECT ? FROM n", (count, "x" * 200))


@contextmanager
def writer(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Give the connection of an application, in WAL mode without any checkpoint or with a journal."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        yield connection


def stored_orders(ground: Ground, number: int = 1) -> int:
    """Count the orders in a stored copy."""
    (file,) = (ground.artifact() / "databases").glob(f"{number}-*")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(rolled_back(unzstd(file.read_bytes())))
        return count(connection)


def rolled_back(content: bytes) -> bytes:
    # A database in memory cannot be in WAL mode; two bytes of the header say that it is.
    return content[:18] + b"\x01\x01" + content[20:]


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])


def orders(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return count(connection)


def test_rows_that_are_only_in_the_wal_are_copied(ground: Ground, database: Path) -> None:
    with writer(database, "WAL") as application:
        add(application, 1000)
        ground.give()
        assert b"x" * 200 * 5 not in database.read_bytes()
        made = ground.back_up()
    assert made["databases"][0]["rows"] == {"orders": 1010, "od'd\" name": 0}
    assert stored_orders(ground) == 1010
    assert ground.verify()["verified"]


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_transaction_that_is_open_is_not_in_the_copy(ground: Ground, database: Path, mode: str) -> None:
    with writer(database, mode) as application:
        application.execute("BEGIN IMMEDIATE")
        add(application, 5)
        ground.give()
        ground.back_up()
        application.execute("COMMIT")
    assert stored_orders(ground) == 10
    assert orders(database) == 15


def test_the_journal_of_a_crashed_writer_is_played_back(ground: Ground, database: Path) -> None:
    def crash() -> None:
        application = sqlite3.connect(database, isolation_level=None)
        application.execute("PRAGMA cache_size = 5")
        application.execute("BEGIN IMMEDIATE")
        application.execute("UPDATE orders SET note = 'spoilt'")
        add(application, 5000)
        os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(start_child(crash), 0)
    assert database.with_name("shop.sqlite3-journal").stat().st_size > 0
    assert b"spoilt" in database.read_bytes()
    ground.give()
    ground.back_up()
    assert stored_orders(ground) == 10


def test_a_database_that_stays_locked_fails_the_backup_by_name(
    ground: Ground, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.1)
    with writer(database, "DELETE") as application:
        application.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ActionFailed, match=r"data/shop.sqlite3 cannot be copied: database is locked"):
            ground.back_up()
    assert list(ground.store().iterdir()) == [] and ground.left_overs() == []


def test_a_damaged_look_alike_is_kept_as_a_file_and_spoils_no_other(ground: Ground, database: Path) -> None:
    first = database.with_name("a-first.sqlite3")
    content = b"SQLite format 3\0" + b"garbage " * 1000
    first.write_bytes(content)
    cut = database.with_name("b-cut.sqlite3")
    cut.write_bytes(database.read_bytes()[:5000])
    ground.give()
    made = ground.back_up()
    assert [part["name"] for part in made["databases"]] == ["data/shop.sqlite3"]
    assert ground.view is not None and [event.split()[0] for event in ground.view.events] == [
        "data/a-first.sqlite3",
        "data/b-cut.sqlite3",
    ]
    first.unlink()
    ground.restore()
    assert (first.read_bytes(), cut.stat().st_size, orders(database)) == (content, 5000, 10)


def test_a_restore_leaves_no_journal_that_would_undo_it(ground: Ground, database: Path) -> None:
    ground.back_up()
    with writer(database, "WAL") as application:
        add(application, 1000)
        ground.give()
        assert database.with_name("shop.sqlite3-wal").stat().st_size > 0
        ground.restore()
    assert sorted(path.name for path in database.parent.iterdir()) == ["shop.sqlite3"]
    assert orders(database) == 10


def test_journals_are_not_archived_but_a_folder_of_such_a_name_is(ground: Ground, database: Path) -> None:
    folder = database.with_name("shop.sqlite3-shm")
    folder.mkdir()
    (folder / "diary.txt").write_text("not the database's")
    (database.parent / "other-wal").write_text("not the database's either")
    ground.give()
    ground.back_up()
    ground.restore()
    assert (folder / "diary.txt").read_text() == "not the database's"
    assert sorted(path.name for path in database.parent.iterdir()) == [
        "other-wal",
        "shop.sqlite3",
        "shop.sqlite3-shm",
    ]


def test_modes_and_folders_of_databases_come_back(ground: Ground, database: Path) -> None:
    with writer(database, "WAL") as application:
        add(application, 1)
    database.chmod(0o440)
    database.parent.chmod(0o555)
    os.utime(database.parent, ns=(0, 1_234_567_890_123_456_789))
    ground.give()
    ground.back_up()
    ground.restore()
    folder = database.parent.stat()
    assert (database.stat().st_mode & 0o7777, folder.st_mode & 0o7777) == (0o440, 0o555)
    assert folder.st_mtime_ns == 1_234_567_890_123_456_789
    assert database.stat().st_uid == ground.uid()
    assert orders(database) == 11


def test_a_database_with_an_awkward_name_comes_back(ground: Ground, database: Path) -> None:
    name = os.path.join(os.fsencode(database.parent), b"-o [*]\n\xff\\x41?#%.db")
    os.rename(database, name)
    ground.give()
    made = ground.back_up()
    assert made["databases"][0]["name"] == r"data/-o [*]\x0a\xff\\x41?#%.db"
    os.unlink(name)
    ground.restore()
    with closing(sqlite3.connect(os.fsdecode(name))) as connection:
        assert count(connection) == 10
    assert os.listdir(os.fsencode(database.parent)) == [os.path.basename(name)]
