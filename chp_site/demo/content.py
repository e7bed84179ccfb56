"""Real content for demo sites: files and databases as customers have them, made from a seed."""

import os
import random
import sqlite3
from collections.abc import Iterable
from pathlib import Path

PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title><link rel="stylesheet" href="/style.css"></head>
<body><h1>{title}</h1><p>{text}</p></body></html>
"""
STYLE = "body { font: 1.1rem/1.6 serif; max-width: 40rem; margin: 3rem auto; color: #222; }\n"
WORDS = ["bread", "river", "lamp", "paper", "garden", "winter", "market", "stone", "music", "harbour"]


def bakery(home: Path) -> None:
    """A small site with a shop's database: a dozen pages, 500 orders."""
    chance = random.Random(1)
    _pages(home / "htdocs", "Nordlicht Bakery", 12, chance)
    _database(home / "data" / "orders.sqlite3", "orders", 500, chance)


def magazine(home: Path) -> None:
    """A PHP tree as large as a usual content system: about 2,500 files, 45 MB, 5,000 posts."""
    chance = random.Random(2)
    root = home / "htdocs"
    _pages(root, "Harbour Magazine", 3, chance)
    for part, folders, files, size in (
        ("core", 40, 30, 9000),
        ("extensions", 25, 30, 12000),
        ("themes", 5, 60, 6000),
    ):
        for folder in range(folders):
            for number in range(files):
                path = root / part / f"module-{folder:02}" / f"class-{chance.choice(WORDS)}-{number:02}.php"
                _write(path, _php(path.stem, size, chance))
    for number in range(250):
        path = root / "uploads" / "2026" / f"{number % 12 + 1:02}" / f"photo-{number:04}.jpg"
        _write(path, b"\xff\xd8\xff\xe0" + chance.randbytes(80_000))
    _database(home / "data" / "magazine.sqlite3", "posts", 5000, chance)


def club(home: Path) -> None:
    """A tiny site without a database."""
    _pages(home / "htdocs", "Copper Music Club", 4, random.Random(3))


def give_to_owner(home: Path) -> None:
    """Make all below a site's home belong to whoever owns the home's data folder."""
    owner = os.stat(home / "data")
    if os.geteuid() != 0:
        return
    for folder, names, files in os.walk(home / "htdocs"):
        _own([folder, *(os.path.join(folder, name) for name in (*names, *files))], owner)
    _own([str(path) for path in (home / "data").iterdir()], owner)


def _own(paths: Iterable[str], owner: os.stat_result) -> None:
    for path in paths:
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _pages(root: Path, title: str, count: int, chance: random.Random) -> None:
    _write(root / "style.css", STYLE.encode())
    for number in range(count):
        name = "index.html" if number == 0 else f"page-{number:02}.html"
        _write(root / name, PAGE.format(title=title, text=_sentence(80, chance)).encode())


def _php(name: str, size: int, chance: random.Random) -> bytes:
    lines = [f"<?php\n/** Part {name}. */\nfinal class Part {{"]
    length = 0
    while length < size:
        name = f"{chance.choice(WORDS)}{length}"
        line = f"    public function {name}(): string {{ return '{_sentence(8, chance)}'; }}"
        lines.append(line)
        length += len(line)
    return "\n".join([*lines, "}\n"]).encode()


def _database(path: Path, table: str, rows: int, chance: random.Random) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, title TEXT NOT NULL, body TEXT)")
        lines = ((number, _sentence(4, chance), _sentence(60, chance)) for number in range(1, rows + 1))
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", lines)  # noqa: S608 - our own names
    connection.close()


def _sentence(words: int, chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(words))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o644)
