"""Databases on a real MariaDB server: everything of them is in a dump, and a restore puts everything back."""

import random
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.databases import mariadb
from agent.declarations.backup import DatabaseRef
from agent.exceptions import ActionFailed
from tests.agent.actions.ground import Ground, unzstd, zstd
from tests.services.mariadb import MariaDB

SHOP, DUMP = "shop_1", "databases/1-mariadb-shop_1.sql.zst"
SCHEMA = """
CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, note VARCHAR(100), picture LONGBLOB);
CREATE TABLE `odd ``name ü` (id INT PRIMARY KEY, twice INT AS (id * 2) STORED);
CREATE TABLE counters (hits INT) ENGINE=MyISAM;
CREATE TABLE history (id INT PRIMARY KEY) WITH SYSTEM VERSIONING;
CREATE TABLE log (note VARCHAR(100));
INSERT INTO orders (note) VALUES ('plain'), ('-- Dump completed'), ('utf8mb4 \U0001f35e and \\\\n'), (NULL);
INSERT INTO `odd ``name ü` (id) VALUES (1), (2);
INSERT INTO counters VALUES (7);
INSERT INTO history VALUES (1);
CREATE VIEW large_orders AS SELECT id, note FROM orders WHERE id > 2;
DELIMITER ;;
CREATE TRIGGER noted AFTER INSERT ON orders FOR EACH ROW INSERT INTO log VALUES (NEW.note);;
CREATE PROCEDURE tidy()
BEGIN
CREATE TEMPORARY TABLE IF NOT EXISTS scratch (id INT);
/* looks like a table:
CREATE TABLE `phantom` (
*/
SELECT COUNT(*) FROM orders;
END;;
CREATE FUNCTION doubled(x INT) RETURNS INT DETERMINISTIC RETURN x * 2;;
CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY DO DELETE FROM log;;
DELIMITER ;
"""
OBJECTS = """
SELECT 'table', TABLE_NAME, TABLE_TYPE, IFNULL(ENGINE, '') FROM information_schema.TABLES
  WHERE TABLE_SCHEMA = '{0}'
UNION SELECT 'routine', ROUTINE_NAME, ROUTINE_TYPE, MD5(ROUTINE_DEFINITION) FROM information_schema.ROUTINES
  WHERE ROUTINE_SCHEMA = '{0}'
UNION SELECT 'trigger', TRIGGER_NAME, EVENT_OBJECT_TABLE, ACTION_STATEMENT FROM information_schema.TRIGGERS
  WHERE TRIGGER_SCHEMA = '{0}'
UNION SELECT 'event', EVENT_NAME, INTERVAL_FIELD, EVENT_DEFINITION FROM information_schema.EVENTS
  WHERE EVENT_SCHEMA = '{0}' ORDER BY 1, 2
"""
ROWS = {"counters": 1, "history": 1, "log": 0, "odd `name ü": 2, "orders": 4}


@pytest.fixture
def shop(ground: Ground, mariadb_server: MariaDB) -> Iterator[Ground]:
    """Give a server with a site that has a database with one of everything."""
    mariadb_server.execute(f"CREATE DATABASE `{SHOP}` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    mariadb_server.execute(SCHEMA, SHOP)
    ground.make_home()
    policy = replace(ground.policy, mariadb_defaults_file=mariadb_server.defaults_file)
    yield Ground(policy, (DatabaseRef("mariadb", SHOP),))
    mariadb_server.execute(f"DROP DATABASE IF EXISTS `{SHOP}`")


def state(server: MariaDB) -> dict[str, str]:
    """Tell all objects of the shop's database, and the content of its tables."""
    tables = ("orders", "`odd ``name ü`", "counters", "history", "log", "large_orders")
    content = {table: server.execute(f"SELECT * FROM {table} ORDER BY 1", SHOP) for table in tables}
    created = server.execute(f"SHOW CREATE DATABASE `{SHOP}`")
    return {**content, "objects": server.execute(OBJECTS.format(SHOP)), "database": created}


def test_everything_of_a_database_comes_back(shop: Ground, mariadb_server: MariaDB) -> None:
    before = state(mariadb_server)
    assert before["objects"].count("\n") == 10
    made = shop.back_up()
    assert made["databases"][0]["rows"] == ROWS
    assert shop.verify()["verified"]
    mariadb_server.execute(f"DROP DATABASE `{SHOP}`; CREATE DATABASE `{SHOP}` COLLATE utf8mb4_bin")
    (restored,) = shop.restore()["databases"]
    assert (restored["engine"], restored["name"], restored["rows"]) == ("mariadb", SHOP, ROWS)
    assert state(mariadb_server) == before
    assert mariadb_server.execute("CALL tidy(); SELECT doubled(4)", SHOP) == "4\n8\n"


def test_what_was_added_later_is_dropped(shop: Ground, mariadb_server: MariaDB) -> None:
    before = state(mariadb_server)
    shop.back_up()
    later = "CREATE TABLE later (x INT); ALTER TABLE orders ADD COLUMN extra INT; DELETE FROM counters; "
    later += "CREATE PROCEDURE later() SELECT 1; CREATE VIEW later_view AS SELECT 1; DROP TRIGGER noted"
    mariadb_server.execute(later, SHOP)
    shop.restore()
    assert state(mariadb_server) == before
    assert "chp_trial" not in mariadb_server.execute("SHOW DATABASES")


def test_a_large_blob_comes_back_to_the_byte(shop: Ground, mariadb_server: MariaDB) -> None:
    content = random.Random(9).randbytes(1 << 20)
    digest = "SELECT MD5(picture), LENGTH(picture) FROM orders WHERE id = 1"
    # Forty times over, so that the statement that makes it stays small.
    update = f"UPDATE orders SET picture = REPEAT(UNHEX('{content.hex()}'), 40) WHERE id = 1"
    mariadb_server.execute(update, SHOP)
    before = mariadb_server.execute(digest, SHOP)
    assert before.split()[1] == str(40 << 20)
    shop.back_up()
    mariadb_server.execute("UPDATE orders SET picture = NULL", SHOP)
    shop.restore()
    assert mariadb_server.execute(digest, SHOP) == before


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.999])
def test_a_cut_dump_is_found_though_the_checksum_fits(
    shop: Ground, mariadb_server: MariaDB, keep: float
) -> None:
    shop.back_up()
    content = unzstd((shop.artifact() / DUMP).read_bytes())
    shop.replace_stored(DUMP, zstd(content[: int(len(content) * keep)]))
    assert shop.verify()["problems"] == ["1-mariadb-shop_1.sql.zst is cut short: its closing line is missing"]


def test_a_dump_without_one_table_is_found_and_not_restored(shop: Ground, mariadb_server: MariaDB) -> None:
    before = state(mariadb_server)
    shop.back_up()
    content = unzstd((shop.artifact() / DUMP).read_bytes())
    cut = re.sub(rb"CREATE TABLE `counters` \(.*?;\n", b"", content, flags=re.DOTALL)
    cut = re.sub(rb"INSERT INTO `counters` .*?;\n|LOCK TABLES `counters`.*?;\n", b"", cut, flags=re.DOTALL)
    cut = re.sub(rb"/\*!40000 ALTER TABLE `counters`.*?;\n", b"", cut)
    assert len(cut) < len(content)
    shop.replace_stored(DUMP, zstd(cut))
    assert shop.verify()["problems"] == [f"{DUMP} does not hold the tables that the manifest names"]
    with pytest.raises(ActionFailed, match="does not hold the tables that its manifest names"):
        shop.restore()
    assert state(mariadb_server) == before


def test_a_dump_that_does_not_load_leaves_database_and_files_as_they_were(
    shop: Ground, mariadb_server: MariaDB
) -> None:
    shop.back_up()
    content = unzstd((shop.artifact() / DUMP).read_bytes())
    shop.replace_stored(DUMP, zstd(content.replace(b"\n-- Dump completed", b"\nNO SQL;\n-- Dump completed")))
    mariadb_server.execute("DELETE FROM orders WHERE id = 1", SHOP)
    (shop.home() / "htdocs" / "index.html").write_text("today")
    before = state(mariadb_server)
    with pytest.raises(ActionFailed, match="You have an error in your SQL syntax"):
        shop.restore()
    assert state(mariadb_server) == before
    assert (shop.home() / "htdocs" / "index.html").read_text() == "today"
    assert "chp_trial" not in mariadb_server.execute("SHOW DATABASES")


def test_a_dump_cannot_run_commands_or_read_the_server_s_files(
    shop: Ground, mariadb_server: MariaDB, folder: Path
) -> None:
    shop.back_up()
    content = unzstd((shop.artifact() / DUMP).read_bytes())
    evil = folder / "evil"
    (folder / "secret").write_text("secret\n")
    end = b"\n-- Dump completed"
    for line in (
        f"\\! touch {evil}\n",
        f"system touch {evil}\n",
        f"\\T {evil}\n",
        f"LOAD DATA LOCAL INFILE '{folder}/secret' INTO TABLE log;\n",
    ):
        shop.replace_stored(DUMP, zstd(content.replace(end, f"\n{line}".encode() + end)))
        with pytest.raises(ActionFailed, match="mariadb ended with code 1"):
            shop.restore()
        assert not evil.exists()
        assert "secret" not in mariadb_server.execute("SELECT * FROM log", SHOP)


def test_a_database_of_another_site_in_the_manifest_is_refused(shop: Ground, mariadb_server: MariaDB) -> None:
    shop.back_up()
    fields = shop.manifest()
    fields["databases"][0]["name"] = "mysql"
    shop.rewrite_manifest(fields)
    with pytest.raises(ActionFailed, match="databases that are not this site's: mysql"):
        shop.restore()
    same_name = Ground(shop.policy, (DatabaseRef("sqlite", "mysql"),))
    with pytest.raises(ActionFailed, match="not this site's"):
        same_name.restore()


def test_a_database_that_is_not_there_fails_the_backup(shop: Ground) -> None:
    missing = Ground(shop.policy, (*shop.databases, DatabaseRef("mariadb", "no_such")))
    with pytest.raises(ActionFailed, match=r"mariadb-dump ended with code 2: .*no_such"):
        missing.back_up()
    assert list(shop.store().iterdir()) == [] and shop.left_overs() == []


def test_a_left_over_of_a_killed_trial_is_no_hindrance(shop: Ground, mariadb_server: MariaDB) -> None:
    shop.back_up()
    with mariadb._scratch_schema(shop.policy, SHOP) as left:
        assert left in mariadb_server.execute("SHOW DATABASES")
        mariadb_server.execute("CREATE TABLE left_over (x INT)", left)
        # As if the first were killed here: the second finds its schema.
        with mariadb._scratch_schema(shop.policy, SHOP) as again:
            assert mariadb_server.execute("SHOW TABLES", again) == ""
        mariadb_server.execute(f"CREATE DATABASE `{left}`")


def test_no_password_is_seen_in_the_process_list(shop: Ground, mariadb_server: MariaDB) -> None:
    seen: set[bytes] = set()
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            seen.update(command_lines())
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        shop.back_up()
        shop.restore()
    finally:
        is_over.set()
        watcher.join()
    tools = {line.split(b"\0")[0] for line in seen}
    assert {b"mariadb-dump", b"mariadb"} <= tools
    assert not [line for line in seen if mariadb_server.password.encode() in line]


def command_lines() -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return found


def test_without_a_server_in_the_policy_it_is_said(ground: Ground) -> None:
    ground.make_home()
    with pytest.raises(ActionFailed, match="this server's agent has no MariaDB"):
        Ground(ground.policy, (DatabaseRef("mariadb", SHOP),)).back_up()
