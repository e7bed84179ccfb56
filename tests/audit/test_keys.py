"""The key file: made closed, refused when open, short, malformed or missing, with what to do."""

import os
from pathlib import Path

import pytest

from audit import checks, keys
from audit.exceptions import KeyFileRefused


def write(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_created_file_is_the_owners_alone_and_holds_a_long_key(tmp_path: Path) -> None:
    old_mask = os.umask(0)
    try:
        keys.create(tmp_path / "new.key")
    finally:
        os.umask(old_mask)
    assert (tmp_path / "new.key").stat().st_mode & 0o777 == 0o600
    ring = keys.load(tmp_path / "new.key")
    assert len(ring.keys[ring.current]) == 32


def test_two_installations_have_two_keys(tmp_path: Path) -> None:
    keys.create(tmp_path / "one.key")
    keys.create(tmp_path / "two.key")
    assert keys.load(tmp_path / "one.key").keys != keys.load(tmp_path / "two.key").keys


def test_existing_file_is_never_replaced(tmp_path: Path) -> None:
    keys.create(tmp_path / "new.key")
    before = (tmp_path / "new.key").read_bytes()
    with pytest.raises(FileExistsError):
        keys.create(tmp_path / "new.key")
    assert (tmp_path / "new.key").read_bytes() == before


def test_link_is_not_followed_when_the_file_is_made(tmp_path: Path) -> None:
    (tmp_path / "new.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="exists"):
        keys.create(tmp_path / "new.key")
    assert not (tmp_path / "elsewhere").exists()


def test_last_key_signs_and_all_verify(tmp_path: Path) -> None:
    first, second = os.urandom(32), os.urandom(40)
    content = f"# made at install\nk1 {first.hex()}\n\nk2 {second.hex()}\n".encode()
    ring = keys.load(write(tmp_path / "ring.key", content))
    assert ring.current == "k2"
    assert ring.keys == {"k1": first, "k2": second}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644])
def test_file_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "open.key", f"k1 {os.urandom(32).hex()}\n".encode(), mode)
    with pytest.raises(KeyFileRefused, match=f"chmod 600 {path}"):
        keys.load(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "holds no key"),
        (b"# only a remark\n", "holds no key"),
        (b"k1\n", "too weak"),
        (b"k1 " + b"ab" * 31 + b"\n", "too weak"),
        (b"k1 " + b"00" * 32 + b"\n", "too weak"),
        (b"k1 not-hexadecimal\n", "<hexadecimal key>"),
        (b"\xff\xfe\n", "plain ASCII"),
    ],
)
def test_unusable_file_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    with pytest.raises(KeyFileRefused, match=says):
        keys.load(write(tmp_path / "bad.key", content))


def test_missing_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KeyFileRefused, match="hosting-setup"):
        keys.load(tmp_path / "none.key")


def test_refusal_never_shows_the_key(tmp_path: Path) -> None:
    secret = "ab" * 20
    with pytest.raises(KeyFileRefused) as refused:
        keys.load(write(tmp_path / "bad.key", f"k1 {secret}\n".encode()))
    assert secret not in str(refused.value)


def test_system_check_names_a_missing_file(settings: object, tmp_path: Path) -> None:
    assert checks.check_key_file(None) == []
    settings.CHP_AUDIT_KEY_FILE = tmp_path / "none.key"
    assert [message.id for message in checks.check_key_file(None)] == ["audit.E001"]
