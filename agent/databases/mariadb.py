"""MariaDB databases: dumped and loaded by the server's own client, credentials from a file of root's."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO

from agent.archive.streams import Compression, Stored, opened, store_output
from agent.exceptions import ActionFailed
from agent.policy import Policy
from agent.runner import Tool, has_tool

CLOSING_MARKER = b"-- Dump completed"
_TABLE = re.compile(rb"CREATE TABLE `((?:[^`]|``)+)` \(\n")
# Around the bodies of routines, triggers and events, which may hold anything.
_BODY_BEGINS, _BODY_ENDS = b"DELIMITER ;;\n", b"DELIMITER ;\n"
_COLLATION = re.compile(r"[a-z0-9_]{1,64}")


def _client() -> str:
    return "mariadb" if has_tool("mariadb") else "mysql"


def _defaults(policy: Policy) -> str:
    if policy.mariadb_defaults_file is None:
        raise ActionFailed("this server's agent has no MariaDB: set [mariadb] defaults_file in its policy")
    return f"--defaults-file={policy.mariadb_defaults_file}"


def dump(policy: Policy, name: str, target: Path, compression: Compression) -> Stored:
    """Dump one database with its routines, triggers, events and views. Raises ActionFailed.

    One transaction gives a consistent state of transactional tables without locking the site out.
    """
    tool = "mariadb-dump" if has_tool("mariadb-dump") else "mysqldump"
    options = ["--single-transaction", "--quick", "--routines", "--triggers", "--events", "--hex-blob"]
    more = ["--no-tablespaces", "--default-character-set=utf8mb4", "--max-allowed-packet=1G"]
    stored, finished = store_output(
        [tool, _defaults(policy), *options, *more, "--", name], target, compression
    )
    finished.require()
    return stored


def tables_of_dump(path: Path, compression: Compression) -> list[str]:
    """Read a stored dump to its end and name its tables. Raises ActionFailed where it is damaged or cut."""
    names: list[str] = []
    last, is_in_body = b"", False
    with opened(path, compression) as stream:
        for line in stream:
            is_in_body = line == _BODY_BEGINS or (is_in_body and line != _BODY_ENDS)
            if not is_in_body and (found := _TABLE.fullmatch(line)):
                names.append(_unquoted(found[1]))
            last = line if line.strip() else last
    if not last.startswith(CLOSING_MARKER) or not last.endswith(b"\n"):
        raise ActionFailed(f"{path.name} is cut short: its closing line is missing")
    return sorted(names)


def _unquoted(name: bytes) -> str:
    return name.replace(b"``", b"`").decode("utf-8", "backslashreplace")


def count_rows(policy: Policy, name: str) -> dict[str, int]:
    """Give the number of rows of every table of a database on the server."""
    listed = _query(
        policy,
        "SELECT HEX(TABLE_NAME) FROM information_schema.TABLES "  # noqa: S608 - a plain name
        f"WHERE TABLE_SCHEMA = '{_plain(name)}' "
        "AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')",
    )
    counts = {}
    for table in sorted(bytes.fromhex(line).decode() for line in listed.split()):
        quoted = table.replace("`", "``")
        counted = _query(policy, f"SELECT COUNT(*) FROM `{_plain(name)}`.`{quoted}`")  # noqa: S608 - quoted
        counts[table] = int(counted)
    return counts


def restore(
    policy: Policy, name: str, path: Path, compression: Compression, tables: list[str]
) -> dict[str, int]:
    """Put a database back to a dump and give its rows per table. Raises ActionFailed.

    The dump is loaded into a schema of its own first: only one that loads whole touches the site's database.
    That one is made anew, so that nothing of today survives beside what is restored; grants stay.
    """
    with _scratch_schema(policy, name) as scratch:
        _load(policy, scratch, path, compression)
        loaded = count_rows(policy, scratch)
    if sorted(loaded) != tables:
        raise ActionFailed(f"the dump of {name} does not hold the tables that its manifest names")
    _make_anew(policy, name)
    _load(policy, name, path, compression)
    counts = count_rows(policy, name)
    if counts != loaded:
        raise ActionFailed(f"{name} was loaded but its row counts differ from the trial load's")
    return counts


@contextmanager
def _scratch_schema(policy: Policy, like: str) -> Iterator[str]:
    # Of one name for one database, so that what a killed run left is found again.
    scratch = f"chp_trial_{sha256(like.encode()).hexdigest()[:16]}"
    _query(policy, f"DROP DATABASE IF EXISTS `{scratch}`")
    _query(policy, f"CREATE DATABASE `{scratch}` {_character_set(policy, like)}")
    try:
        yield scratch
    finally:
        _query(policy, f"DROP DATABASE `{scratch}`")


def _make_anew(policy: Policy, name: str) -> None:
    charset = _character_set(policy, name)
    _query(policy, f"DROP DATABASE IF EXISTS `{_plain(name)}`; CREATE DATABASE `{_plain(name)}` {charset}")


def _character_set(policy: Policy, name: str) -> str:
    row = _query(
        policy,
        "SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME "  # noqa: S608 - a plain name
        "FROM information_schema.SCHEMATA "
        f"WHERE SCHEMA_NAME = '{_plain(name)}'",
    ).split()
    if len(row) != 2 or not all(_COLLATION.fullmatch(word) for word in row):
        return "CHARACTER SET utf8mb4"
    return f"CHARACTER SET {row[0]} COLLATE {row[1]}"


def _load(policy: Policy, name: str, path: Path, compression: Compression) -> None:
    # A dump is SQL and no more: the client must neither run commands that stand in it nor read files for it.
    options = ["--max-allowed-packet=1G", "--binary-mode", "--local-infile=0"]
    with opened(path, compression) as stream:
        _run_client(policy, [*options, "--", _plain(name)], stream)


def _query(policy: Policy, statement: str) -> str:
    return _run_client(policy, ["--batch", "--skip-column-names", f"--execute={statement}"]).decode()


def _run_client(policy: Policy, arguments: list[str], stream: IO[bytes] | None = None) -> bytes:
    command = [_client(), _defaults(policy), "--default-character-set=utf8mb4", *arguments]
    tool = Tool(command, stdin=stream) if stream is not None else Tool(command)
    printed = tool.output.read()
    return tool.finish(printed).require().stdout


def _plain(name: str) -> str:
    # Names come from the panel's declaration, which allows a narrow alphabet; here is where they meet SQL.
    if not re.fullmatch(r"[A-Za-z0-9_$.-]{1,64}", name):
        raise ActionFailed(f"{name!r} cannot be a database name")
    return name
