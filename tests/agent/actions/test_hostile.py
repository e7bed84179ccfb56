"""Archives made by an attacker, with checksums that fit: none writes outside, none harms the site."""

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.exceptions import ActionFailed
from tests.agent.actions import trees
from tests.agent.actions.ground import Ground, zstd

Make = Callable[[tarfile.TarFile, Path], None]


@pytest.fixture
def outside(folder: Path) -> Path:
    """Give a folder that everybody may write, with a file in it; nothing else may ever come there."""
    made = folder / "outside"
    made.mkdir()
    made.chmod(0o777)
    (made / "secret").write_text("secret")
    (made / "secret").chmod(0o666)
    return made


def add(archive: tarfile.TarFile, name: str, content: bytes = b"evil", **fields: object) -> None:
    member = tarfile.TarInfo(name)
    for key, value in {"size": len(content), "mode": 0o644, **fields}.items():
        setattr(member, key, value)
    archive.addfile(member, io.BytesIO(content) if member.isreg() else None)


def link(archive: tarfile.TarFile, name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> None:
    add(archive, name, b"", type=kind, linkname=target)


def absolute_name(archive: tarfile.TarFile, outside: Path) -> None:
    add(archive, f"{outside}/evil")


def upward_name(archive: tarfile.TarFile, outside: Path) -> None:
    add(archive, "../../outside/evil")
    add(archive, "htdocs/../../../outside/evil")


def file_through_link(archive: tarfile.TarFile, outside: Path) -> None:
    link(archive, "door", str(outside))
    add(archive, "door/evil")
    link(archive, "back", "../../outside")
    add(archive, "back/evil")


def file_over_link(archive: tarfile.TarFile, outside: Path) -> None:
    link(archive, "page", str(outside / "secret"))
    add(archive, "page")


def hard_link(archive: tarfile.TarFile, outside: Path) -> None:
    link(archive, "page", str(outside / "secret"), tarfile.LNKTYPE)
    add(archive, "page")


def hard_link_upwards(archive: tarfile.TarFile, outside: Path) -> None:
    link(archive, "page", "../../outside/secret", tarfile.LNKTYPE)
    add(archive, "page")


def device(archive: tarfile.TarFile, outside: Path) -> None:
    add(archive, "disk", b"", type=tarfile.BLKTYPE, devmajor=254, devminor=0, mode=0o666)


def home_as_link(archive: tarfile.TarFile, outside: Path) -> None:
    link(archive, ".", str(outside))
    add(archive, "./evil")


HOSTILE = [
    absolute_name, upward_name, file_through_link, file_over_link, hard_link, hard_link_upwards, device,
    home_as_link,
]  # fmt: skip


@pytest.mark.parametrize("make", HOSTILE)
def test_nothing_is_written_outside_and_a_refused_restore_changes_nothing(
    ground: Ground, outside: Path, make: Make
) -> None:
    prepare(ground, outside, make)
    before, around = trees.described(ground.home()), trees.described(outside)
    neighbours = set(os.listdir(ground.policy.sites_root))
    try:
        ground.restore()
    except ActionFailed:
        assert trees.differences(before, trees.described(ground.home())) == []
    assert trees.differences(around, trees.described(outside)) == []
    assert set(os.listdir(ground.policy.sites_root)) == neighbours
    assert ground.left_overs() == []


@pytest.mark.parametrize("make", [upward_name, file_through_link, device])
def test_what_leads_out_is_refused_with_the_reason(ground: Ground, outside: Path, make: Make) -> None:
    prepare(ground, outside, make)
    with pytest.raises(ActionFailed, match="tar ended with code 2: tar: "):
        ground.restore()
    assert not ground.verify(deep=True)["verified"]


def test_a_set_id_program_of_root_s_becomes_the_owner_s(ground: Ground, outside: Path) -> None:
    prepare(ground, outside, lambda archive, _: add(archive, "shell", mode=0o6755, uid=0, gid=0))
    ground.restore()
    status = (ground.home() / "shell").stat()
    assert (status.st_uid, status.st_gid) == (ground.uid(), ground.uid())


def test_an_archive_without_files_replaces_nothing(ground: Ground, outside: Path) -> None:
    prepare(ground, outside, lambda archive, _: None)
    with pytest.raises(ActionFailed, match="the archive holds no files"):
        ground.restore()
    assert (ground.home() / "htdocs" / "index.html").exists()


def prepare(ground: Ground, outside: Path, make: Make) -> None:
    """Back a site up and put the attacker's archive in the place of its files."""
    ground.make_home()
    ground.back_up()
    (ground.policy.sites_root / ".scratch").mkdir(exist_ok=True)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        make(archive, outside)
    ground.replace_stored("files.tar.zst", zstd(made.getvalue()))
