"""The panel's own verification of its trail: the entries, the head, and the last anchor."""

from dataclasses import dataclass

from audit import keys
from audit.anchor import Anchor, last_anchor
from audit.chain import Verdict, verify, verify_end
from audit.snapshot import Snapshot


@dataclass(frozen=True)
class Verification:
    """The verdict on the trail, and the anchor it was compared with (None where none was written yet)."""

    verdict: Verdict
    anchor: Anchor | None


def verify_trail() -> Verification:
    """Verify the whole trail. Raises KeyFileRefused and AnchorRefused where there is nothing to verify by."""
    ring = keys.load()
    # The anchor first: entries that are added meanwhile are no contradiction to it.
    anchor = last_anchor(ring)
    snapshot = Snapshot()
    verdict = verify(snapshot, ring.keys, anchor.mark if anchor else None)
    return Verification(verify_end(verdict, snapshot.head), anchor)
