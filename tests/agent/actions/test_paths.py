"""Paths in a tenant's territory."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.exceptions import ActionFailed
from agent.owner import Owner
from agent.paths import exchange, make_folders_below, open_below, open_regular, remove_tree, shown, unshown
from agent.runner import call_as

OWNER = Owner(20_001, 20_001)


@given(st.binary(max_size=60))
@example(b"\\\xff\\x41\\\\\n")
@example("ü\u2028\u202e".encode())
def test_a_shown_path_is_printable_and_stands_for_one_path(path: bytes) -> None:
    assert shown(path).isprintable()
    assert unshown(shown(path)) == path


@pytest.mark.parametrize("path", [b"", b"/etc/passwd", b"..", b"a/../b", b"a//b", b"./a", b"a/", b"a\0b"])
def test_only_a_path_below_the_folder_is_one(tmp_path: Path, path: bytes) -> None:
    with pytest.raises(ValueError, match="not a path below a folder"):
        open_below(tmp_path, path, os.O_RDONLY)
    with pytest.raises(ValueError, match="not a path below a folder"):
        make_folders_below(tmp_path, path)


def test_no_link_is_followed_on_the_way_or_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("x")
    (tmp_path / "folder-link").symlink_to("real")
    (tmp_path / "file-link").symlink_to("real/file")
    os.close(open_below(tmp_path, b"real/file", os.O_RDONLY))
    for path in (b"folder-link/file", b"file-link"):
        with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
            open_below(tmp_path, path, os.O_RDONLY)
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        make_folders_below(tmp_path, b"folder-link/new/file")
    assert not (tmp_path / "real" / "new").exists()


def test_a_regular_file_of_its_owner_is_opened_and_nothing_else(tmp_path: Path) -> None:
    mine, foreign, twice = (tmp_path / name for name in ("mine", "foreign", "twice"))
    for path in (mine, foreign, twice):
        path.write_text("x")
        os.chown(path, OWNER.uid, OWNER.gid)
    os.chown(foreign, 0, 0)
    os.link(twice, tmp_path / "second")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(mine)
    open_regular(mine, OWNER).close()
    for name in ("foreign", "twice", "fifo", "link", "absent", "."):
        with pytest.raises(ActionFailed):
            open_regular(tmp_path / name, OWNER)


def test_two_folders_are_swapped(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    exchange(tmp_path / "first", tmp_path / "second")
    assert (os.listdir(tmp_path / "first"), os.listdir(tmp_path / "second")) == (["second"], ["first"])
    with pytest.raises(FileNotFoundError):
        exchange(tmp_path / "first", tmp_path / "absent")
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]


def test_who_is_not_root_removes_a_tree_with_closed_folders(folder: Path) -> None:
    tree = folder / "tree"
    (tree / "closed" / "inner").mkdir(parents=True)
    (tree / "closed" / "inner" / "file").touch()
    (tree / "link").symlink_to("/etc")
    for path in (folder, tree, tree / "closed", tree / "closed" / "inner"):
        os.chown(path, OWNER.uid, OWNER.gid)
    (tree / "closed" / "inner").chmod(0o500)
    (tree / "closed").chmod(0)
    call_as(OWNER, remove_as_path, str(tree))
    assert not tree.exists()


def remove_as_path(path: str) -> None:
    remove_tree(Path(path))
