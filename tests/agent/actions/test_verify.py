"""Verification finds every kind of damage, says it in a sentence, and finds nothing in a good artifact."""

import json
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.archive import manifest
from agent.archive.manifest import DatabasePart
from agent.exceptions import ActionFailed
from agent.protocol import MAX_LINE_BYTES
from tests.agent.actions import trees
from tests.agent.actions.ground import CODE, MEMORY, Ground, policy_in, remove, unzstd, zstd

FILES, DATABASE = "files.tar.zst", "databases/1-sqlite-a.sqlite3.sqlite3.zst"


@pytest.fixture(scope="module")
def backed_up(idle_web_server: str) -> Iterator[Ground]:
    """Give a server with a site that was backed up: a few files and two databases."""
    folder = Path(tempfile.mkdtemp(prefix="chp-verify-", dir=MEMORY if MEMORY.is_dir() else None))
    folder.chmod(0o755)
    ground = Ground(policy_in(folder, idle_web_server))
    home = ground.make_home()
    for name in ("a.sqlite3", "b.sqlite3"):
        with closing(sqlite3.connect(home / "data" / name)) as connection:
            connection.execute("CREATE TABLE t (x)")
            connection.executemany("INSERT INTO t VALUES (?)", [("row" * 50,)] * 500)
            connection.execute("CREATE INDEX i ON t (x)")
            connection.commit()
    for number in range(50):
        (home / "htdocs" / f"page-{number}.html").write_text(f"page {number}" * 100)
    ground.give()
    ground.back_up()
    shutil.copytree(ground.artifact(), folder / "pristine")
    yield ground
    remove(folder)


@pytest.fixture
def site(backed_up: Ground) -> Iterator[Ground]:
    """Give that server; what a test does to the artifact is undone after it, and the site must not change."""
    before = trees.described(backed_up.home())
    yield backed_up
    assert trees.differences(before, trees.described(backed_up.home())) == []
    remove(backed_up.artifact())
    shutil.copytree(backed_up.policy.sites_root.parent / "pristine", backed_up.artifact())


@pytest.mark.parametrize("deep", [False, True])
def test_a_good_artifact_has_no_problems(site: Ground, deep: bool) -> None:
    told = site.verify(deep=deep)
    assert (told["verified"], told["problems"], told["files"]) == (True, [], 54)
    assert [part["rows"] for part in told["databases"]] == [{"t": 500}, {"t": 500}]
    assert site.left_overs() == []


@pytest.mark.parametrize("file", [FILES, DATABASE])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: content + b"x",
        lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:],
    ],
    ids=["last byte gone", "half", "empty", "longer", "one bit"],
)
def test_a_damaged_file_is_named(site: Ground, file: str, damage: Callable[[bytes], bytes]) -> None:
    path = site.artifact() / file
    path.write_bytes(damage(path.read_bytes()))
    told = site.verify()
    assert not told["verified"]
    assert told["problems"][0] == f"{file} is damaged: its checksum differs from the manifest"
    with pytest.raises(ActionFailed, match="is damaged: its checksum differs"):
        site.restore()
    assert site.left_overs() == []


@pytest.mark.parametrize("file", [FILES, DATABASE, "manifest.json"])
def test_a_file_that_is_gone_is_named(site: Ground, file: str) -> None:
    (site.artifact() / file).unlink()
    told = site.verify()
    assert not told["verified"] and "No such file" in told["problems"][0] and file in told["problems"][0]


def test_one_damaged_database_is_not_said_of_the_next(site: Ground) -> None:
    path = site.artifact() / DATABASE
    path.write_bytes(path.read_bytes()[:-20])
    told = site.verify()
    assert [problem for problem in told["problems"] if "b.sqlite3" in problem] == []


def test_a_lost_member_is_found_though_the_checksum_fits(site: Ground) -> None:
    archive = site.artifact().parent / "cut.tar"
    archive.write_bytes(unzstd((site.artifact() / FILES).read_bytes()))
    subprocess.run(["tar", "--delete", "-f", str(archive), "./htdocs/page-7.html"], check=True)
    site.replace_stored(FILES, zstd(archive.read_bytes()))
    assert site.verify()["problems"] == [f"{FILES} lists 53 members; the manifest says 54"]


def test_a_cut_archive_is_found_though_the_checksum_fits(site: Ground) -> None:
    content = unzstd((site.artifact() / FILES).read_bytes())
    site.replace_stored(FILES, zstd(content[: content.index(b"page 7page 7") + 10]))
    (problem,) = site.verify()["problems"]
    assert "tar ended with code 2" in problem and "Unexpected EOF" in problem


def test_lost_rows_of_a_copy_are_found_though_the_checksum_fits(site: Ground) -> None:
    def shorten(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM t WHERE rowid > 499")

    change_copy(site, shorten)
    assert site.verify()["problems"] == [f"{DATABASE}: row counts differ from the manifest"]


def test_a_copy_with_a_broken_index_is_found_though_the_checksum_fits(site: Ground) -> None:
    def spoil(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master) WHERE name = 'i'"
        )

    change_copy(site, spoil)
    (problem,) = site.verify()["problems"]
    assert problem.startswith(f"{DATABASE}: ")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 2}, "the manifest has version 2; this agent reads version 1"),
        ({"site_id": 10}, "the manifest belongs to another backup"),
        ({"backup": "BK-20200101-000000"}, "the manifest belongs to another backup"),
        ({"compression": "lzma"}, "the manifest names the compression 'lzma', which is not known here"),
        ({"surprise": 1}, "the manifest cannot be read"),
    ],
)
def test_an_altered_manifest_is_told(site: Ground, change: dict[str, Any], sentence: str) -> None:
    site.rewrite_manifest({**site.manifest(), **change})
    told = site.verify()
    assert not told["verified"] and sentence in told["problems"][0]
    with pytest.raises(ActionFailed):
        site.restore()


@pytest.mark.parametrize(
    "change",
    [
        {"engine": "oracle"},
        {"file": "../../2/BK/files.tar.zst"},
        {"file": "/etc/passwd"},
        {"mode": "0644"},
        {"tables": {"t": "many"}},
        {"tables": 5},
        {"path": 7},
    ],
)
def test_a_manifest_that_describes_a_database_wrongly_is_refused(
    site: Ground, change: dict[str, Any]
) -> None:
    fields = site.manifest()
    fields["databases"][0].update(change)
    site.rewrite_manifest(fields)
    assert not site.verify()["verified"]
    with pytest.raises(ActionFailed, match="the manifest"):
        site.restore()


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"\xff", b'{"version": 1}', b"[" * 100_000])
def test_a_manifest_that_is_none_is_told(site: Ground, content: bytes) -> None:
    (site.artifact() / "manifest.json").write_bytes(content)
    (problem,) = site.verify()["problems"]
    assert problem.startswith("the manifest cannot be read")


def test_the_digest_that_the_panel_keeps_decides(site: Ground) -> None:
    site.rewrite_manifest({**site.manifest(), "domain": "other.test"})
    assert site.verify()["verified"]
    assert site.verify(sha256="0" * 64)["problems"] == [
        "the manifest is not the one that was written: its checksum differs"
    ]


def test_an_artifact_in_another_site_s_place_is_refused(site: Ground) -> None:
    site.make_home(10)
    before = trees.described(site.home(10))
    shutil.copytree(site.artifact(1), site.artifact(10))
    assert site.verify(10)["problems"] == ["the manifest belongs to another backup"]
    with pytest.raises(ActionFailed, match="belongs to another backup; nothing was changed"):
        site.restore(10)
    assert trees.differences(before, trees.described(site.home(10))) == []
    remove(site.home(10))
    remove(site.store(10))


def test_a_database_may_not_be_placed_outside_of_the_home(site: Ground) -> None:
    fields = site.manifest()
    for path in ("../../10/data/x", "/tmp/x", "data/../../x", ""):
        fields["databases"][0]["path"] = path
        site.rewrite_manifest(fields)
        with pytest.raises(ActionFailed, match="not a path below a folder"):
            site.restore()
    assert json.loads((site.artifact() / "manifest.json").read_bytes())["backup"] == CODE


def change_copy(site: Ground, change: Callable[[sqlite3.Connection], None]) -> None:
    """Change the first stored copy, with a manifest whose checksum fits."""
    path = site.policy.sites_root.parent / "changed.sqlite3"
    path.write_bytes(unzstd((site.artifact() / DATABASE).read_bytes()))
    with closing(sqlite3.connect(path)) as connection:
        change(connection)
        connection.commit()
    site.replace_stored(DATABASE, zstd(path.read_bytes()))


def test_what_an_answer_tells_of_databases_fits_one_line_however_many_tables_there_are() -> None:
    tables = {f"table_{number:05}_{'x' * 50}": 10**9 for number in range(20_000)}
    part = DatabasePart("mariadb", "shop", "", "databases/1", 1, "0" * 64, tables, 0)
    for parts in ([part], [part] * 300, [part] * 2000):
        told = manifest.told(parts)
        assert len(json.dumps(told)) < MAX_LINE_BYTES - 4096
        assert told[0]["tables"] == 20_000
