"""A restore puts the whole site back, or leaves it as it was; and touches no other."""

import os
import shutil
from pathlib import Path

import pytest

from agent.exceptions import ActionFailed, OperationCancelled
from tests.agent.actions import trees
from tests.agent.actions.ground import OTHER_CODE, Ground
from tests.agent.actions.web import free_address


@pytest.fixture
def site(ground: Ground) -> Ground:
    """Give a server with the sites 1 and 10, both backed up under the same code, and 1 changed since."""
    for number in (1, 10):
        ground.make_home(number)
        ground.back_up(number)
    (ground.home() / "htdocs" / "shell.php").write_text("<?php")
    (ground.home() / "htdocs" / "index.html").write_text("defaced")
    return ground


def test_what_came_later_is_gone_and_all_is_the_owner_s(site: Ground) -> None:
    told = site.restore()
    assert sorted(os.listdir(site.home() / "htdocs")) == ["index.html"]
    assert (site.home() / "htdocs" / "index.html").read_text() == "site 1\n"
    assert {path.lstat().st_uid for path in site.home().rglob("*")} == {site.uid()}
    assert (told["files"], told["status"]) == (4, 404)
    assert site.left_overs() == []


def test_files_come_to_today_s_owner_of_the_site(site: Ground) -> None:
    moved = Ground(site.policy.__class__(**{**vars(site.policy), "uid_base": 30_000}))
    moved.restore()
    assert {path.lstat().st_uid for path in [site.home(), *site.home().rglob("*")]} == {30_001}


def test_cancelled_before_the_swap_the_site_is_untouched(site: Ground) -> None:
    before = trees.described(site.home())
    with pytest.raises(OperationCancelled):
        site.restore(cancel_at="staged")
    assert trees.differences(before, trees.described(site.home())) == []
    assert site.left_overs() == []


def test_failing_after_the_swap_it_swaps_back(site: Ground) -> None:
    before = trees.described(site.home())
    with pytest.raises(ActionFailed, match="does not answer"):
        site.with_web_address(free_address()).restore()
    assert trees.differences(before, trees.described(site.home())) == []
    assert site.left_overs() == []


def test_a_home_that_is_gone_is_made_anew(site: Ground) -> None:
    shutil.rmtree(site.home())
    with pytest.raises(ActionFailed, match="does not answer"):
        site.with_web_address(free_address()).restore()
    assert not site.home().exists() and site.left_overs() == []
    site.restore()
    assert (site.home() / "htdocs" / "index.html").read_text() == "site 1\n"
    assert (site.home().stat().st_mode & 0o7777, site.home().stat().st_uid) == (0o710, site.uid())


def test_a_neighbour_with_a_longer_number_is_untouched(site: Ground) -> None:
    before = trees.described(site.home(10))
    abandoned = [site.policy.sites_root / f".staging-{number}-{OTHER_CODE}" for number in (1, 10)]
    scratch = [site.policy.sites_root / ".scratch" / f"{number}-left" for number in (1, 10)]
    drafts = [site.store(number) / f".partial-{OTHER_CODE}" for number in (1, 10)]
    for folder in (*abandoned, *scratch, *drafts):
        folder.mkdir()
    site.restore()
    site.delete()
    site.back_up(code=OTHER_CODE)
    assert trees.differences(before, trees.described(site.home(10))) == []
    assert (site.artifact(10) / "manifest.json").exists()
    assert site.left_overs() == sorted(str(folders[1]) for folders in (abandoned, scratch, drafts))


def test_a_deleted_backup_is_gone_and_deleting_again_is_fine(site: Ground) -> None:
    assert site.delete() == {"backup": site.artifact().name, "deleted": True}
    assert list(site.store().iterdir()) == []
    assert site.delete()["deleted"] is False
    assert site.delete(99)["deleted"] is False


def test_deleting_also_takes_what_a_broken_attempt_left(site: Ground) -> None:
    draft = site.store() / f".partial-{OTHER_CODE}"
    (draft / "databases").mkdir(parents=True)
    (draft / "files.tar.zst").write_bytes(b"half")
    assert site.delete(code=OTHER_CODE)["deleted"] is True
    assert [path.name for path in site.store().iterdir()] == [site.artifact().name]


def test_a_tree_is_removed_without_following_its_links(site: Ground, folder: Path) -> None:
    kept = folder / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept")
    (site.artifact() / "databases" / "link").symlink_to(kept)
    site.delete()
    assert (kept / "file").read_text() == "kept"
