"""What the owner of one site can do to the work on it, and to a neighbour's files."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.exceptions import ActionFailed
from agent.owner import NOBODY, Owner
from agent.paths import remove_tree
from agent.runner import call_as
from tests.agent.actions.ground import Ground

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="several owners need root")


def _readable(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return bool(file.read(1))
    except PermissionError:
        return False


def test_a_site_cannot_read_what_a_neighbour_serves_but_the_web_server_can(ground: Ground) -> None:
    """A configuration file with a password often lies among what is served."""
    ground.make_home(1)
    ground.make_home(2)
    page = str(ground.home(2) / "htdocs" / "index.html")
    assert call_as(Owner(ground.uid(2), ground.uid(2)), _readable, page)
    assert call_as(NOBODY, _readable, page)
    assert not call_as(Owner(ground.uid(1), ground.uid(1)), _readable, page)


def test_a_restored_home_is_as_closed_as_a_new_one(ground: Ground) -> None:
    ground.create_site()
    ground.back_up()
    ground.home().chmod(0o777)
    ground.restore()
    status = ground.home().stat()
    assert (status.st_mode & 0o7777, status.st_gid) == (0o710, NOBODY.gid)


def _make_deep(root: str, levels: int) -> None:
    os.chdir(root)
    for _ in range(levels):
        os.mkdir("d")
        os.chdir("d")


def test_a_very_deep_tree_is_backed_up_restored_and_removed(ground: Ground) -> None:
    ground.create_site()
    call_as(Owner(ground.uid(), ground.uid()), _make_deep, str(ground.home() / "data"), 1500)
    ground.back_up()
    for _ in range(2):
        ground.restore()
    assert not list(ground.policy.sites_root.glob(".staging-*"))
    remove_tree(ground.home())


def test_who_keeps_writing_into_the_old_home_stops_no_restore(
    ground: Ground, background: Callable[..., "subprocess.Popen[bytes]"]
) -> None:
    ground.create_site()
    ground.back_up()
    writer = background(
        "/usr/bin/python3",
        "-c",
        # Its folder goes away under it: it goes on all the same.
        "import itertools\nfor n in itertools.count():\n"
        " try: open(f'f{n % 5000}', 'w').close()\n except OSError: pass",
        cwd=ground.home() / "htdocs",
        user=ground.uid(),
        group=ground.uid(),
    )
    for _ in range(2):
        ground.restore()
    assert writer.poll() is None
    assert not list((ground.home() / "htdocs").glob("f*"))


@pytest.fixture
def background():  # type: ignore[no-untyped-def]
    """Start a process that ends with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, cwd: Path, user: int, group: int) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            arguments, cwd=cwd, user=user, group=group, extra_groups=[], stderr=subprocess.DEVNULL
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_removing_what_is_not_there_is_fine_and_what_cannot_be_removed_is_said(tmp_path: Path) -> None:
    remove_tree(tmp_path / "nothing")
    with pytest.raises(ActionFailed, match="rm"):
        remove_tree(Path("/proc/self/fdinfo"))
