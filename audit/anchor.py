"""Anchors: where the chain ended at some moment, signed and kept in a file outside of the database.

Whoever writes the database can cut off the chain's end, or put an old database in its place; the entries that
remain are a good chain. The anchor names an entry that must be there.
"""

import fcntl
import hashlib
import hmac
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from django.conf import settings

from audit import keys, transactions
from audit.chain import GENESIS, Mark
from audit.clock import as_text, database_now
from audit.exceptions import AnchorRefused, HeadMissing
from audit.keys import KeyRing
from audit.models import AuditEntry, AuditHead

_ANCHOR = b"chp-audit-anchor-1\n"
# A line has fixed parts only and is far shorter.
_TAIL = 4_096


@dataclass(frozen=True)
class Anchor:
    """One line of the anchor file: at `at` (UTC) the chain ended with entry `sequence`, carrying `mac`."""

    sequence: int
    mac: str
    at: str
    key_id: str
    signature: str = ""

    @property
    def mark(self) -> Mark:
        """What the anchor says of the chain."""
        return Mark(self.sequence, self.mac)


def last_anchor(ring: KeyRing | None = None) -> Anchor | None:
    """Read the last anchor; None where there is none yet. Raises AnchorRefused where it cannot be trusted."""
    path = _path()
    if not path.exists():
        return None
    with path.open("rb") as file:
        return _last(file, ring or keys.load())


def write_anchor() -> Anchor:
    """Anchor the chain's present end and give that anchor; the last one again where nothing was added since.

    Raises AnchorRefused, and writes nothing, where the chain does not continue what the last anchor names.
    """
    if transactions.is_open():
        raise AnchorRefused("Anchors are written outside of transactions: what they name must be committed.")
    ring = keys.load()
    with _locked(_path()) as file:
        last, head = _last(file, ring), _head()
        if last is not None:
            _require_continued(last, head)
            if last.sequence == head.sequence:
                return last
        return _append(file, head, ring)


def start_over() -> Path | None:
    """Put the anchor file aside, after a restore of an older database, and give its new place.

    The chain and the file disagree for good then; a person decides, and records it in the trail.
    """
    path = _path()
    if not path.exists():
        return None
    aside = path.with_name(f"{path.name}.{database_now():%Y%m%dT%H%M%S%f}")
    os.rename(path, aside)
    return aside


def _path() -> Path:
    return Path(settings.CHP_AUDIT_ANCHOR_FILE)


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _head() -> Mark:
    head = AuditHead.objects.filter(pk=AuditHead.ONLY).first()
    if head is not None:
        return Mark(head.sequence, head.mac)
    if AuditEntry.objects.exists():
        raise HeadMissing("The row that says where the trail ends is gone. Run: hosting-audit verify")
    return Mark(0, GENESIS)


def _require_continued(last: Anchor, head: Mark) -> None:
    stands = AuditEntry.objects.filter(pk=last.sequence).values_list("mac", flat=True).first()
    if head.sequence < last.sequence or (last.sequence and stands != last.mac):
        raise AnchorRefused(
            f"The trail no longer holds entry {last.sequence} as anchored at {last.at}: its end was cut "
            "off, or an older database was put in place. Run: hosting-audit verify"
        )


def _append(file: IO[bytes], head: Mark, ring: KeyRing) -> Anchor:
    at = as_text(database_now())
    unsigned = Anchor(head.sequence, head.mac, at, ring.current)
    anchor = Anchor(head.sequence, head.mac, at, ring.current, _signature(unsigned, ring.keys[ring.current]))
    line = json.dumps(asdict(anchor), sort_keys=True, separators=(",", ":")).encode("ascii") + b"\n"
    # A line that a crash left unfinished is closed, so that it spoils itself only.
    file.write(line if _ends_whole(file) else b"\n" + line)
    os.fsync(file.fileno())
    return anchor


def _ends_whole(file: IO[bytes]) -> bool:
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _last(file: IO[bytes], ring: KeyRing) -> Anchor | None:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    whole, _, _ = file.read().rpartition(b"\n")
    line = whole.rpartition(b"\n")[2]
    return _parsed(line, ring) if line else None


def _parsed(line: bytes, ring: KeyRing) -> Anchor:
    try:
        anchor = Anchor(**json.loads(line))
        key = ring.keys[anchor.key_id]
        genuine = hmac.compare_digest(anchor.signature, _signature(anchor, key))
    except (ValueError, TypeError, KeyError) as error:
        raise AnchorRefused(
            f"The last line of {_path()} is no anchor of this installation's keys."
        ) from error
    if not genuine:
        raise AnchorRefused(f"The last anchor in {_path()} does not fit its signature.")
    return anchor


def _signature(anchor: Anchor, key: bytes) -> str:
    signed = {name: value for name, value in asdict(anchor).items() if name != "signature"}
    line = json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    return hmac.new(key, _ANCHOR + line, hashlib.sha256).hexdigest()
