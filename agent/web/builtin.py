"""The builtin web server's configuration: one small JSON file per site, read anew when the folder changes."""

import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agent.exceptions import ActionFailed
from agent.paths import locked_folder, make_public_folder, sync_folder
from agent.policy import Policy
from agent.web import driver
from agent.web.driver import VirtualHost

SUFFIX = ".site.json"


def read_all(folder: Path) -> list[VirtualHost]:
    """Read every site's file. Raises ActionFailed naming the one that is broken."""
    return [_read(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]


def check(hosts: Sequence[VirtualHost]) -> None:
    """Check a whole configuration: every name belongs to one site. Raises ActionFailed."""
    taken: dict[str, int] = {}
    for host in hosts:
        for name in host.names:
            if taken.setdefault(name, host.site_id) != host.site_id:
                raise ActionFailed(f"{name} is already served by site {taken[name]}")


def _read(path: Path) -> VirtualHost:
    try:
        fields = json.loads(path.read_bytes())
        return VirtualHost(int(fields["site_id"]), tuple(fields["names"]), Path(fields["document_root"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ActionFailed(
            f"the web server's configuration is already broken: {path.name}: {error}"
        ) from error


class BuiltinDriver:
    """Publishes sites for the process of agent.tools.web_server."""

    def __init__(self, policy: Policy) -> None:
        """Take the policy that says where configuration and server are."""
        self._policy = policy
        self._folder = policy.web_config_dir

    def publish(self, host: VirtualHost) -> None:
        """See WebDriver."""
        make_public_folder(self._folder)
        path = self._folder / f"{host.site_id}{SUFFIX}"
        with locked_folder(self._folder):
            others = [other for other in read_all(self._folder) if other.site_id != host.site_id]
            check([*others, host])
            before = path.read_bytes() if path.exists() else None
            self._put(path, _rendered(host))
        try:
            self.probe(host.names[0])
        except ActionFailed:
            self._put_back(path, before)
            raise

    def probe(self, domain: str) -> int:
        """See WebDriver."""
        return driver.probe(self._policy, domain)

    def _put(self, path: Path, content: bytes) -> None:
        descriptor, aside = tempfile.mkstemp(dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), 0o644)
                file.flush()
                os.fsync(file.fileno())
            os.rename(aside, path)
        except OSError:
            with suppress(OSError):
                os.unlink(aside)
            raise
        sync_folder(self._folder)

    def _put_back(self, path: Path, before: bytes | None) -> None:
        if before is None:
            path.unlink(missing_ok=True)
        else:
            self._put(path, before)


def _rendered(host: VirtualHost) -> bytes:
    fields = {"site_id": host.site_id, "names": list(host.names), "document_root": str(host.document_root)}
    return json.dumps(fields, indent=2).encode() + b"\n"
