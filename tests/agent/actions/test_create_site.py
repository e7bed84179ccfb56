"""Making a site: whole, once or twice the same, and nothing published that cannot be served."""

import os
import stat

import pytest

from agent.exceptions import ActionFailed
from tests.agent.actions import trees
from tests.agent.actions.ground import DOMAIN, Ground
from tests.agent.actions.web import ask, free_address


def test_a_new_site_is_served_and_its_owner_s_alone(serving: Ground) -> None:
    told = serving.create_site(1, DOMAIN, "www.road.test")
    home = serving.home()
    assert told == {
        "site_id": 1,
        "home": str(home),
        "document_root": str(home / "htdocs"),
        "owner_uid": serving.uid(),
        "status": 200,
    }
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home, home / "htdocs", home / "data")}
    assert modes == {"1": 0o710, "htdocs": 0o755, "data": 0o700}
    for name in (DOMAIN, "www.road.test", "ROAD.test.", f"{DOMAIN}:80"):
        assert DOMAIN.encode() in ask(serving.policy.web_address, "/", name).body


def test_made_twice_it_is_the_same_and_keeps_what_is_in_it(serving: Ground) -> None:
    serving.create_site()
    (serving.home() / "htdocs" / "index.html").write_text("mine")
    (serving.home() / "htdocs").chmod(0o750)
    before = trees.described(serving.home())
    assert serving.create_site()["status"] in (200, 403, 404)
    assert trees.differences(before, trees.described(serving.home())) == []
    assert len(list(serving.policy.web_config_dir.iterdir())) == 1


def test_it_does_not_depend_on_the_umask(serving: Ground) -> None:
    previous = os.umask(0o077)
    try:
        assert serving.create_site()["status"] == 200
    finally:
        os.umask(previous)


def test_a_name_that_another_site_has_is_refused_and_stays_with_it(serving: Ground) -> None:
    serving.create_site(1, DOMAIN, "shared.test")
    with pytest.raises(ActionFailed, match=r"shared.test is already served by site 1"):
        serving.create_site(2, "second.test", "shared.test")
    address = serving.policy.web_address
    assert DOMAIN.encode() in ask(address, "/", "shared.test").body
    assert ask(address, "/", "second.test").status == 404
    assert [path.name for path in serving.policy.web_config_dir.iterdir()] == ["1.site.json"]


def test_without_a_web_server_it_fails_and_publishes_nothing(ground: Ground) -> None:
    alone = ground.with_web_address(free_address())
    with pytest.raises(ActionFailed, match=r"does not answer .*; start it and try again"):
        alone.create_site()
    assert list(ground.policy.web_config_dir.iterdir()) == []


def test_without_a_web_server_the_configuration_of_before_is_put_back(ground: Ground) -> None:
    ground.create_site(1, DOMAIN, "old.test")
    file = ground.policy.web_config_dir / "1.site.json"
    before = file.read_bytes()
    with pytest.raises(ActionFailed, match="does not answer"):
        ground.with_web_address(free_address()).create_site(1, DOMAIN, "new.test")
    assert file.read_bytes() == before
    assert list(ground.policy.web_config_dir.iterdir()) == [file]


def test_a_broken_file_of_another_site_is_named(ground: Ground) -> None:
    ground.policy.web_config_dir.mkdir()
    (ground.policy.web_config_dir / "7.site.json").write_text("{")
    with pytest.raises(ActionFailed, match=r"already broken: 7.site.json"):
        ground.create_site()


def test_a_home_that_a_killed_run_left_half_made_is_finished(ground: Ground) -> None:
    ground.home().mkdir(mode=0o700)
    assert ground.create_site()["owner_uid"] == ground.uid()
    assert stat.S_IMODE(ground.home().stat().st_mode) == 0o710


def test_a_home_of_somebody_else_s_is_not_taken(ground: Ground) -> None:
    ground.make_home(2)
    os.rename(ground.home(2), ground.home(1))
    with pytest.raises(ActionFailed, match="belongs to uid 20002, not to the site's 20001"):
        ground.create_site()
    ground.home(3).symlink_to("/etc")
    with pytest.raises(ActionFailed, match="is no folder"):
        ground.create_site(3, "third.test")
