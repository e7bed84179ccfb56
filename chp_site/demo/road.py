"""The road of `make demo-check`, step by step, by the faces that customers and operators use."""

import sqlite3
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit.verification import verify_trail
from chp_site.demo import content, snapshot, world
from chp_site.demo.client import Client

DOMAIN, CUSTOMER = "harbour-magazine.test", "harbour"


class RoadBlocked(Exception):
    """A step did not come out as it must."""


@dataclass
class Road:
    """What the steps need and find out. `say` prints a line for people."""

    state: Path
    panel: str
    web: str
    password: str
    say: Callable[[str], object]
    jobs: list[str] = field(default_factory=list)

    def walk(self) -> dict[str, Any]:
        """Go all the way and give the report. Raises RoadBlocked, CallFailed or StartFailed."""
        world.make_people(self.password)
        site, job = world.make_site(self.state, DOMAIN, CUSTOMER, content.magazine)
        self._note(f"provisioned {DOMAIN} with {job.code}", job.code)
        home = self.state / "sites" / str(site.pk)
        self._require_served(home)
        client = Client(self.panel, "hanna", self.password)
        before = snapshot.of(home)
        backup = self._back_up(client, site.pk)
        self._verify(client, backup)
        _damage(home)
        damaged = before.differences(snapshot.of(home))
        if not damaged:
            raise RoadBlocked("the damage left no trace, so the comparison would prove nothing")
        self._note(f"damaged: {len(damaged)} files and tables differ")
        self._restore(client, backup)
        return self._report(home, before, backup)

    def _back_up(self, client: Client, site_id: int) -> str:
        job = client.finished(client.call("POST", f"sites/{site_id}/backups/", {"reason": "demo-check"}))
        backup = client.call("GET", f"backups/{job['result']['backup']}/")
        if backup["integrity"] != "VERIFIED":
            raise RoadBlocked(f"{backup['code']} is {backup['integrity']}")
        self._note(
            f"backed up as {backup['code']}, {backup['size_bytes']} bytes, with {job['code']}", job["code"]
        )
        return str(backup["code"])

    def _verify(self, client: Client, backup: str) -> None:
        job = client.finished(client.call("POST", f"backups/{backup}/verify/", {"deep": True}))
        self._note(f"verified {backup} deeply with {job['code']}", job["code"])

    def _restore(self, client: Client, backup: str) -> None:
        job = client.finished(client.call("POST", f"backups/{backup}/restore/", {"reason": "demo-check"}))
        self._note(f"restored {backup} with {job['code']}, plan {job['plan']}", job["code"])

    def _report(self, home: Path, before: snapshot.Snapshot, backup: str) -> dict[str, Any]:
        different = before.differences(snapshot.of(home))
        if different:
            raise RoadBlocked(f"{len(different)} differ after the restore: {', '.join(different[:10])}")
        self._require_served(home)
        return {
            "ok": True,
            "site": DOMAIN,
            "files_compared": len(before.entries),
            "rows_compared": before.row_count,
            "backup": backup,
            "jobs": self.jobs,
            "audit_entries": _verified_entries(),
        }

    def _require_served(self, home: Path) -> None:
        request = urllib.request.Request(f"http://{self.web}/", headers={"Host": DOMAIN})
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback
            served = answer.read()
        if served != (home / "htdocs" / "index.html").read_bytes():
            raise RoadBlocked(f"{DOMAIN} is served, but not with its own first page")
        self._note(f"served over HTTP: {len(served)} bytes")

    def _note(self, line: str, *codes: str) -> None:
        self.jobs.extend(codes)
        self.say(line)


def _verified_entries() -> int:
    verdict = verify_trail().verdict
    if verdict.problem is not None:
        raise RoadBlocked(f"the audit trail does not verify: {verdict.problem}")
    return verdict.entries


def _damage(home: Path) -> None:
    """Do what an intruder or a clumsy hand does: change, delete, plant, and spoil the database."""
    root = home / "htdocs"
    (root / "index.html").write_text("<h1>defaced</h1>")
    for path in sorted((root / "uploads").rglob("*.jpg"))[::3]:
        path.unlink()
    (root / "core" / "planted.php").write_text("<?php // planted")
    with sqlite3.connect(home / "data" / "magazine.sqlite3") as connection:
        connection.execute("DELETE FROM posts WHERE id % 2 = 0")
        connection.execute("UPDATE posts SET title = 'spoiled'")
    connection.close()
