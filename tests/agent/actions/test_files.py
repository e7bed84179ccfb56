"""The files of a site: what a backup holds of them, and that a restore brings the same back."""

import os
import random
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.actions import trees
from tests.agent.actions.ground import Ground, unzstd
from tests.agent.actions.tar_watch import TarWatch
from tests.services.availability import missing


def test_an_awkward_tree_comes_back_without_a_difference(ground_on_disk: Ground) -> None:
    home = ground_on_disk.make_home()
    trees.awkward(home)
    ground_on_disk.give()
    before = trees.described(home)
    made = ground_on_disk.back_up()
    assert (made["integrity"], made["skipped"], made["changed"]) == ("COMPLETE", [], [])
    subprocess.run(["rm", "-rf", str(home / "htdocs")], check=True)
    ground_on_disk.restore()
    assert trees.differences(before, trees.described(home)) == []
    assert len(before) > 60


def test_attributes_and_access_lists_come_back(ground_on_disk: Ground) -> None:
    home = ground_on_disk.make_home()
    if not trees.with_attributes(home, ground_on_disk.uid()):
        missing("acl", "the file system or the system's tools have no access lists")
    ground_on_disk.give()
    before = trees.described(home)
    assert any("system.posix_acl_access" in told[5] for told in before.values())  # type: ignore[operator]
    ground_on_disk.back_up()
    subprocess.run(["setfacl", "-R", "-b", str(home)], check=True)
    assert trees.differences(before, trees.described(home)) != []
    ground_on_disk.restore()
    assert trees.differences(before, trees.described(home)) == []


def test_a_sparse_file_takes_no_room_in_the_artifact_or_after_it(ground: Ground) -> None:
    sparse = ground.make_home() / "htdocs" / "sparse"
    with sparse.open("wb") as file:
        file.truncate(1 << 30)
    ground.give()
    ground.back_up()
    assert len(unzstd((ground.artifact() / "files.tar.zst").read_bytes())) < 100_000
    ground.restore()
    status = sparse.stat()
    assert status.st_size == 1 << 30 and status.st_blocks * 512 < 1 << 20


def test_files_that_the_owner_cannot_read_make_it_partial_and_are_named_once(ground: Ground) -> None:
    home = ground.make_home()
    ground.give()
    names = [b"secret", b"col:on\n\xff\\"]
    for name in names:
        path = os.path.join(os.fsencode(home / "htdocs"), name)
        with open(path, "wb") as file:
            file.write(b"root's")
        os.chmod(path, 0o600)
    (home / "htdocs" / "closed").mkdir(mode=0o700)
    made = ground.back_up()
    assert made["integrity"] == "PARTIAL"
    assert made["skipped"] == ["htdocs/closed", "htdocs/col:on\\x0a\\xff\\\\", "htdocs/secret"]
    assert ground.manifest()["skipped"] == made["skipped"]
    assert ground.verify()["verified"]


def test_a_file_that_changes_while_it_is_read_is_named(ground: Ground) -> None:
    def append(path: Path) -> None:
        with path.open("ab") as file:
            file.write(b"more")

    changed = read_while(ground, append)
    assert ground.manifest()["changed"] == [changed]
    assert ground.manifest()["integrity"] == "COMPLETE"


def test_a_file_that_shrinks_while_it_is_read_is_named(ground: Ground) -> None:
    changed = read_while(ground, lambda path: os.truncate(path, 10))
    assert ground.manifest()["changed"] == [changed]
    assert ground.verify()["verified"]


def test_files_that_vanish_while_others_are_read_are_named_and_are_no_gap(ground: Ground) -> None:
    gone: list[str] = []

    def remove_others(path: Path) -> None:
        for other in path.parent.iterdir():
            if other != path:
                gone.append(f"htdocs/{path.parent.name}/{other.name}")
                other.unlink()

    read_while(ground, remove_others)
    vanished = set(ground.manifest()["vanished"])
    assert vanished and vanished <= set(gone)
    assert ground.manifest()["integrity"] == "COMPLETE"


def test_the_artifact_is_root_s_alone(ground: Ground) -> None:
    ground.make_home()
    ground.back_up()
    paths = [ground.artifact(), *ground.artifact().rglob("*")]
    modes = {path.name: (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) for path in paths}
    assert modes == {
        ground.artifact().name: (0, 0o700),
        "databases": (0, 0o700),
        "files.tar.zst": (0, 0o600),
        "manifest.json": (0, 0o600),
    }


def test_a_code_is_used_once(ground: Ground) -> None:
    ground.make_home()
    ground.back_up()
    before = (ground.artifact() / "manifest.json").read_bytes()
    with pytest.raises(Exception, match="exists already"):
        ground.back_up()
    assert (ground.artifact() / "manifest.json").read_bytes() == before


def test_a_site_without_a_home_is_refused(ground: Ground) -> None:
    with pytest.raises(Exception, match="has no home on this server"):
        ground.back_up()
    assert not ground.store().exists()


def test_a_full_store_is_said_and_leaves_nothing(ground: Ground) -> None:
    (ground.make_home() / "htdocs" / "large").write_bytes(random.Random(1).randbytes(2 << 20))
    ground.give()
    store = ground.policy.stores["archive"]
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(store)], check=False)
    if mounted.returncode:
        missing("mount", "a small file system cannot be mounted here")
    try:
        with pytest.raises(Exception, match=r"cannot write files.tar.zst: No space left"):
            ground.back_up()
        assert ground.left_overs() == [] and list(ground.store().iterdir()) == []
    finally:
        subprocess.run(["umount", str(store)], check=True)


def read_while(ground: Ground, meanwhile: Callable[[Path], object]) -> str:
    """Back up while one of ten large files is read; give the path of that one below the home."""
    folder = ground.make_home() / "htdocs" / "large"
    folder.mkdir()
    content = random.Random(3).randbytes(6 << 20)
    for number in range(10):
        (folder / f"file-{number}").write_bytes(content)
    ground.give()
    watch = TarWatch(folder, meanwhile)
    ground.back_up(on_progress=watch.start)
    return str(watch.join().relative_to(ground.home()))
