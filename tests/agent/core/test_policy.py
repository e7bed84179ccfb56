import os
from pathlib import Path

import pytest

from agent.exceptions import PolicyRefused
from agent.policy import load_policy
from agent.protocol import load_key
from tests.agent.core.running import KEY, KEY_ID, write_policy

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files of other users")


def test_a_policy_is_read_with_its_keys_and_defaults(folder: Path) -> None:
    policy = load_policy(write_policy(folder, allowed_uids=[33]))
    assert (policy.server, policy.keys, policy.allowed_uids) == ("web1", {KEY_ID: KEY}, (33,))
    assert (policy.allowed_actions, policy.uid_base, policy.web_driver) == (("*",), 20000, "builtin")
    assert policy.stores == {"archive": folder / "archive"}
    assert policy.mariadb_defaults_file is None


def test_keys_do_not_show(folder: Path) -> None:
    policy = load_policy(write_policy(folder))
    assert repr(KEY) not in repr(policy)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"colour": "blue"}, "colour: unknown key"),
        ({"server": 7}, "server: give a text"),
        ({"socket": "agent.sock"}, "socket: give an absolute path"),
        ({"state_dir": "/var/../etc"}, "state_dir: give an absolute path"),
        ({"allowed_uids": [-1]}, "allowed_uids: give a list of whole numbers"),
        ({"allowed_uids": ["root"]}, "allowed_uids"),
        ({"grace_seconds": 0}, "grace_seconds"),
        ({"uid_base": "20000"}, "uid_base: give a whole number"),
        ({"allowed_actions": [7]}, "allowed_actions: give a list of texts"),
        ({"server": "two\\nlines"}, "server: give a name"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(folder: Path, settings: dict[str, object], named: str) -> None:
    with pytest.raises(PolicyRefused, match=named):
        load_policy(write_policy(folder, **settings))


def test_a_file_that_is_not_there_or_not_toml_is_refused(folder: Path) -> None:
    with pytest.raises(PolicyRefused, match="No such file"):
        load_policy(folder / "none.toml")
    path = write_policy(folder)
    path.write_text("= 7")
    with pytest.raises(PolicyRefused, match="not TOML"):
        load_policy(path)


def test_a_policy_without_keys_is_refused(folder: Path) -> None:
    path = write_policy(folder)
    path.write_text(path.read_text().replace(f'{KEY_ID} = "{folder}/key"', ""))
    with pytest.raises(PolicyRefused, match="keys: name at least one"):
        load_policy(path)


@needs_root
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_as_root_a_policy_that_others_may_write_is_refused(folder: Path, mode: int) -> None:
    path = write_policy(folder)
    path.chmod(mode)
    with pytest.raises(PolicyRefused, match="writable by group or others"):
        load_policy(path)


@needs_root
def test_as_root_a_policy_of_another_user_is_refused(folder: Path) -> None:
    path = write_policy(folder)
    os.chown(path, 12345, 12345)
    with pytest.raises(PolicyRefused, match="must belong to root"):
        load_policy(path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_may_read_is_refused(folder: Path, mode: int) -> None:
    path = write_policy(folder)
    (folder / "key").chmod(mode)
    with pytest.raises(PolicyRefused, match="chmod 0600"):
        load_policy(path)


def test_a_short_key_is_refused(folder: Path) -> None:
    path = write_policy(folder)
    (folder / "key").write_bytes(b"x" * 31)
    with pytest.raises(PolicyRefused, match="shorter than 32 bytes"):
        load_policy(path)


def test_a_key_is_taken_byte_for_byte(folder: Path) -> None:
    path = folder / "key"
    path.touch(0o600)
    path.write_bytes(b"x" * 32 + b"\n")
    assert load_key(path) == b"x" * 32 + b"\n"


def test_questions_to_the_agent_are_allowed_whatever_actions_are(folder: Path) -> None:
    policy = load_policy(write_policy(folder, allowed_actions=["backup.verify_backup"]))
    assert policy.allows("backup.verify_backup")
    assert policy.allows("agent.ping")
    assert not policy.allows("backup.restore_backup")
