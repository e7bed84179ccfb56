"""An agent that is not root: all is its own user's, and the same road works."""

# Loaded here, since that user may not be able to read the folder that Python lies in.
import encodings.idna  # noqa: F401
from pathlib import Path

from agent.owner import Owner
from agent.runner import call_as
from tests.agent.actions import trees
from tests.agent.actions.ground import Ground, policy_in

CALLER = Owner(23_456, 23_456)


def test_the_whole_road_without_root(folder: Path, idle_web_server: str) -> None:
    own = folder / "own"
    own.mkdir()
    own.chmod(0o777)
    told = call_as(CALLER, whole_road, str(own), idle_web_server)
    assert told == {"uid": CALLER.uid, "verified": True, "differences": 0, "left": []}


def whole_road(folder: str, web_address: str) -> dict[str, object]:
    ground = Ground(policy_in(Path(folder), web_address))
    uid = ground.create_site()["owner_uid"]
    home = ground.home()
    trees.awkward(home)
    before = trees.described(home)
    ground.back_up()
    verified = ground.verify(deep=True)["verified"]
    (home / "htdocs" / "read-only").chmod(0o700)
    (home / "htdocs" / "read-only" / "inside").write_text("changed")
    (home / "htdocs" / "read-only").chmod(0o500)
    ground.restore()
    changed = trees.differences(before, trees.described(home))
    return {"uid": uid, "verified": verified, "differences": len(changed), "left": ground.left_overs()}
