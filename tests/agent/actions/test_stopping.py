"""A backup that does not come to its end: cancelled, or killed with all that it started."""

import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent.exceptions import OperationCancelled
from agent.runner import start_child
from tests.agent.actions import trees
from tests.agent.actions.ground import CODE, OTHER_CODE, Ground


@pytest.fixture
def site(ground: Ground) -> Ground:
    """Give a server with a site that has a database and enough files to be caught at."""
    home = ground.make_home()
    with closing(sqlite3.connect(home / "data" / "shop.sqlite3")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    (home / "htdocs" / "large").write_bytes(random.Random(5).randbytes(40 << 20))
    ground.give()
    return ground


@pytest.mark.parametrize("checkpoint", ["dumped data/shop.sqlite3", "archived", "finalizing"])
def test_a_cancelled_backup_leaves_nothing(site: Ground, checkpoint: str) -> None:
    before = trees.described(site.home())
    with pytest.raises(OperationCancelled):
        site.back_up(cancel_at=checkpoint)
    assert site.view is not None and site.view.checkpoints[-1] == checkpoint
    assert list(site.store().iterdir()) == [] and site.left_overs() == []
    assert trees.differences(before, trees.described(site.home())) == []


def test_a_killed_backup_leaves_only_a_draft_that_the_next_run_removes(site: Ground) -> None:
    pid = start_child(site.back_up)
    partial = site.store() / f".partial-{CODE}"
    until(lambda: size_of(partial / "files.tar.zst") > 1 << 20)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    until(lambda: not group_exists(pid))
    assert [path.name for path in site.store().iterdir()] == [partial.name]
    assert not (partial / "manifest.json").exists()
    assert len(site.left_overs()) == 2
    assert not site.verify()["verified"]
    site.back_up(code=OTHER_CODE)
    assert [path.name for path in site.store().iterdir()] == [OTHER_CODE]
    assert site.left_overs() == []


def test_scratch_of_a_run_that_lives_is_left_alone(site: Ground) -> None:
    found: list[bool] = []

    def verify_meanwhile(name: str) -> None:
        before = site.left_overs()
        found.append(not Ground(site.policy).verify(code=OTHER_CODE)["verified"])
        assert site.left_overs() == before

    site.back_up(code=OTHER_CODE)
    (site.artifact(code=OTHER_CODE) / "files.tar.zst").write_bytes(b"")
    made = site.back_up(on_checkpoint=verify_meanwhile)
    assert found == [True, True, True] and made["integrity"] == "COMPLETE"


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def until(is_so: Callable[[], bool], seconds: float = 20) -> None:
    ends = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.002)
