"""The agent's own configuration: one TOML file that root owns, read once at the start."""

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from agent.exceptions import PolicyRefused
from agent.protocol import is_name, load_key

_MEMBERS = {
    "server",
    "keys",
    "socket",
    "socket_group",
    "state_dir",
    "lock_dir",
    "sites_root",
    "stores",
    "allowed_uids",
    "allowed_actions",
    "uid_base",
    "grace_seconds",
    "web",
    "mariadb",
}


@dataclass(frozen=True)
class Policy:
    """What this agent is, where things are, and what it may do. Keys never show in its repr."""

    server: str
    keys: Mapping[str, bytes] = field(repr=False)
    socket: Path
    state_dir: Path
    lock_dir: Path
    sites_root: Path
    stores: Mapping[str, Path]
    allowed_uids: tuple[int, ...]
    web_config_dir: Path
    allowed_actions: tuple[str, ...] = ("*",)
    uid_base: int = 20000
    grace_seconds: float = 10
    web_driver: str = "builtin"
    web_address: str = "127.0.0.1:8081"
    mariadb_defaults_file: Path | None = None
    socket_group: int | None = None

    def allows(self, action: str) -> bool:
        """Say whether the action may run here; questions to the agent itself always may."""
        return action.startswith("agent.") or bool({"*", action} & set(self.allowed_actions))


def load_policy(path: Path | str) -> Policy:
    """Read the policy file and the keys it names, or raise PolicyRefused with one sentence.

    As root the file must belong to root and be writable by nobody else.
    """
    path = Path(path)
    table = _Table(_read(path), path)
    table.refuse_unknown(_MEMBERS)
    web, mariadb = table.section("web"), table.section("mariadb")
    web.refuse_unknown({"driver", "config_dir", "address"})
    mariadb.refuse_unknown({"defaults_file"})
    return Policy(
        server=table.name("server"),
        keys=_keys(table.section("keys")),
        socket=table.path("socket"),
        socket_group=table.whole("socket_group", None),
        state_dir=table.path("state_dir"),
        lock_dir=table.path("lock_dir"),
        sites_root=table.path("sites_root"),
        stores=table.section("stores").paths(),
        allowed_uids=tuple(table.numbers("allowed_uids")),
        allowed_actions=tuple(table.texts("allowed_actions", ["*"])),
        uid_base=table.whole("uid_base", 20000) or 0,
        grace_seconds=table.seconds("grace_seconds", 10),
        web_driver=web.text("driver", "builtin"),
        web_config_dir=web.path("config_dir"),
        web_address=web.text("address", "127.0.0.1:8081"),
        mariadb_defaults_file=mariadb.path("defaults_file") if mariadb.values else None,
    )


def _keys(section: "_Table") -> dict[str, bytes]:
    if not section.values:
        section.refuse("", "name at least one key file")
    for name in section.values:
        if not is_name(name):
            section.refuse(name, "cannot be the name of a key")
    return {name: load_key(file) for name, file in section.paths().items()}


def _read(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            _check_owner(os.fstat(file.fileno()), path)
            return tomllib.load(file)
    except OSError as error:
        raise PolicyRefused(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PolicyRefused(f"{path}: not TOML: {error}") from error


def _check_owner(status: os.stat_result, path: Path) -> None:
    if os.geteuid() != 0:
        return
    if status.st_uid != 0:
        raise PolicyRefused(f"{path}: must belong to root, belongs to uid {status.st_uid}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PolicyRefused(f"{path}: must not be writable by group or others (chmod 0644)")


class _Table:
    """One table of the file, read with types; every error names the file and the key."""

    def __init__(self, values: Mapping[str, object], path: Path, prefix: str = "") -> None:
        self.values = values
        self._path = path
        self._prefix = prefix

    def refuse(self, key: str, advice: str) -> NoReturn:
        raise PolicyRefused(f"{self._path}: {(self._prefix + key).rstrip('.')}: {advice}")

    def refuse_unknown(self, members: set[str]) -> None:
        for key in self.values:
            if key not in members:
                self.refuse(key, "unknown key")

    def section(self, key: str) -> "_Table":
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            self.refuse(key, "must be a table")
        return _Table(value, self._path, f"{key}.")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value or "\0" in value:
            self.refuse(key, "give a text")
        return value

    def name(self, key: str) -> str:
        value = self.text(key)
        if not is_name(value):
            self.refuse(key, "give a name of letters, digits and . _ : @ -")
        return value

    def path(self, key: str) -> Path:
        path = Path(self.text(key))
        if not path.is_absolute() or ".." in path.parts:
            self.refuse(key, "give an absolute path without ..")
        return path

    def paths(self) -> dict[str, Path]:
        return {key: self.path(key) for key in self.values}

    def whole(self, key: str, default: int | None) -> int | None:
        value = self.values.get(key, default)
        if value is not None and (type(value) is not int or value < 0):
            self.refuse(key, "give a whole number from 0")
        return value

    def seconds(self, key: str, default: float) -> float:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
            self.refuse(key, "give seconds, more than 0 and at most 3600")
        return value

    def numbers(self, key: str) -> list[int]:
        value = self.values.get(key, [])
        if not isinstance(value, list) or any(type(item) is not int or item < 0 for item in value):
            self.refuse(key, "give a list of whole numbers")
        return value

    def texts(self, key: str, default: list[str]) -> list[str]:
        value = self.values.get(key, default)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.refuse(key, "give a list of texts")
        return value
