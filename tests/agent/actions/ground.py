"""A server's folders for one test, and the actions done on them as the agent would do them."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.actions.backup import create_backup, delete_backup, restore_backup, verify_backup
from agent.actions.hosting import create_site
from agent.declarations.backup import CreateBackup, DatabaseRef, DeleteBackup, RestoreBackup, VerifyBackup
from agent.declarations.hosting import CreateSite
from agent.owner import WEB_GROUP
from agent.policy import Policy
from tests.agent.actions.view import RecordingView

CODE = "BK-20260813-170001"
OTHER_CODE = "BK-20260814-170001"
DOMAIN = "road.test"
MEMORY = Path("/dev/shm")


def policy_in(folder: Path, web_address: str) -> Policy:
    """Give a policy whose folders are all below one that everybody may enter."""
    for name, mode in (("sites", 0o755), ("archive", 0o700), ("state", 0o700), ("locks", 0o700)):
        (folder / name).mkdir()
        (folder / name).chmod(mode)
    return Policy(
        server="test",
        keys={},
        socket=folder / "agent.sock",
        state_dir=folder / "state",
        lock_dir=folder / "locks",
        sites_root=folder / "sites",
        stores={"archive": folder / "archive"},
        allowed_uids=(),
        web_config_dir=folder / "web",
        web_address=web_address,
    )


@dataclass
class Ground:
    """The folders, the policy, and short ways to ask for actions. `view` is the last operation's."""

    policy: Policy
    databases: tuple[DatabaseRef, ...] = ()
    view: RecordingView | None = None

    def home(self, site_id: int = 1) -> Path:
        return self.policy.sites_root / str(site_id)

    def uid(self, site_id: int = 1) -> int:
        return self.policy.uid_base + site_id

    def store(self, site_id: int = 1) -> Path:
        return self.policy.stores["archive"] / str(site_id)

    def artifact(self, site_id: int = 1, code: str = CODE) -> Path:
        return self.store(site_id) / code

    def make_home(self, site_id: int = 1) -> Path:
        """Make a home with one page, as create_site leaves it."""
        home = self.home(site_id)
        for folder, mode in ((home, 0o710), (home / "htdocs", 0o755), (home / "data", 0o700)):
            folder.mkdir()
            folder.chmod(mode)
        (home / "htdocs" / "index.html").write_text(f"site {site_id}\n")
        self.give(site_id)
        return home

    def give(self, site_id: int = 1) -> None:
        """Give all of a home to the site's owner, keeping modes and times."""
        uid, home = self.uid(site_id), self.home(site_id)
        for folder, names, files in os.walk(os.fsencode(home)):
            for name in (b".", *names, *files):
                path = os.path.join(folder, name)
                mode = os.lstat(path).st_mode
                os.lchown(path, uid, uid)
                if not stat.S_ISLNK(mode):
                    # A change of owner takes the set-id bits away.
                    os.chmod(path, stat.S_IMODE(mode))
        os.chown(home, uid, WEB_GROUP)

    def create_site(self, site_id: int = 1, domain: str = DOMAIN, *aliases: str) -> dict[str, Any]:
        self.view = RecordingView(self.policy, site_id=site_id)
        return create_site.run(CreateSite(site_id, domain, aliases), self.view)

    def back_up(self, site_id: int = 1, code: str = CODE, **of_view: Any) -> dict[str, Any]:
        self.view = RecordingView(self.policy, site_id=site_id, **of_view)
        asked = CreateBackup(site_id, DOMAIN, code, "archive", self.databases)
        return create_backup.run(asked, self.view)

    def verify(
        self, site_id: int = 1, code: str = CODE, sha256: str = "", *, deep: bool = False
    ) -> dict[str, Any]:
        self.view = RecordingView(self.policy, site_id=site_id)
        return verify_backup.run(VerifyBackup(site_id, code, "archive", sha256, deep), self.view)

    def restore(self, site_id: int = 1, code: str = CODE, sha256: str = "", **of_view: Any) -> dict[str, Any]:
        self.view = RecordingView(self.policy, site_id=site_id, **of_view)
        asked = RestoreBackup(site_id, DOMAIN, code, "archive", sha256, self.databases)
        return restore_backup.run(asked, self.view)

    def delete(self, site_id: int = 1, code: str = CODE) -> dict[str, Any]:
        self.view = RecordingView(self.policy, site_id=site_id)
        return delete_backup.run(DeleteBackup(site_id, code, "archive"), self.view)

    def manifest(self, site_id: int = 1, code: str = CODE) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.artifact(site_id, code) / "manifest.json").read_bytes())
        return content

    def rewrite_manifest(self, fields: dict[str, Any]) -> None:
        (self.artifact() / "manifest.json").write_text(json.dumps(fields))

    def replace_stored(self, file: str, content: bytes) -> None:
        """Put other content in a stored file's place, with a manifest that fits it."""
        (self.artifact() / file).write_bytes(content)
        fields = self.manifest()
        for part in (fields["files"], *fields["databases"]):
            if file in (part.get("name"), part.get("file")):
                part.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())
        self.rewrite_manifest(fields)

    def with_web_address(self, address: str) -> "Ground":
        return Ground(replace(self.policy, web_address=address), self.databases)

    def left_overs(self) -> list[str]:
        """Name what must not remain when no action runs: staging, scratch, drafts."""
        scratch = self.policy.sites_root / ".scratch"
        found = [
            *self.policy.sites_root.glob(".staging*"),
            *self.policy.stores["archive"].glob("*/.partial*"),
        ]
        return sorted(str(path) for path in [*found, *(scratch.iterdir() if scratch.exists() else ())])


def zstd(content: bytes) -> bytes:
    """Compress as the store does."""
    return subprocess.run(["zstd", "-q", "-c"], input=content, capture_output=True, check=True).stdout


def unzstd(content: bytes) -> bytes:
    """Decompress what the store holds."""
    return subprocess.run(["zstd", "-q", "-d", "-c"], input=content, capture_output=True, check=True).stdout


def remove(folder: Path) -> None:
    """Remove a test's folder."""
    assert os.geteuid() == 0 or os.access(folder, os.W_OK)
    shutil.rmtree(folder, ignore_errors=True)
