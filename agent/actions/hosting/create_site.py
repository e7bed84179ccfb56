"""hosting.create_site: home, owner, document root, virtual host; safe to repeat."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from agent.declarations.hosting import CreateSite
from agent.exceptions import ActionFailed
from agent.operation import OperationView
from agent.owner import Owner, open_to_web, owner_of
from agent.paths import home_of, make_public_folder
from agent.runner import call_as
from agent.web.driver import VirtualHost
from agent.web.drivers import web_driver

# What is served can be read by all who get as far; `data` is the owner's alone.
SERVED_MODE, DATA_MODE = 0o755, 0o700
FIRST_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{domain}</title></head>
<body><h1>{domain}</h1><p>This site is ready for its first files.</p></body></html>
"""


def run(arguments: CreateSite, operation: OperationView) -> dict[str, object]:
    """Make the site and give its places and the status of its first page."""
    policy, domain = operation.policy, arguments.domain
    home, owner = home_of(policy, arguments.site_id), owner_of(policy, arguments.site_id)
    operation.progress(10, "home and owner")
    _make_home(home, owner)
    call_as(owner, fill_home, str(home), FIRST_PAGE.format(domain=domain))
    operation.checkpoint("home made")
    operation.progress(50, "virtual host")
    driver = web_driver(policy)
    driver.publish(VirtualHost(arguments.site_id, (domain, *arguments.aliases), home / "htdocs"))
    status = driver.probe(domain)
    return {
        "site_id": arguments.site_id,
        "home": str(home),
        "document_root": str(home / "htdocs"),
        "owner_uid": os.lstat(home).st_uid,
        "status": status,
    }


def _make_home(home: Path, owner: Owner | None) -> None:
    uid = owner.uid if owner else os.geteuid()
    make_public_folder(home.parent)
    with suppress(FileExistsError):
        home.mkdir()
    status = os.lstat(home)
    if not stat.S_ISDIR(status.st_mode):
        raise ActionFailed(f"{home} is in the way: it is no folder")
    if status.st_uid == os.geteuid() and not any(home.iterdir()):
        # Made just now, or by a run that was killed at this point. The folder above is root's, so nobody can
        # have put another thing in its place.
        open_to_web(home, owner)
    elif status.st_uid != uid:
        raise ActionFailed(f"{home} belongs to uid {status.st_uid}, not to the site's {uid}; move it away")


def fill_home(home: str, first_page: str) -> None:
    """Make the folders of a home, and a first page where nothing is served yet. Runs as the owner."""
    root = Path(home)
    for name, mode in (("htdocs", SERVED_MODE), ("data", DATA_MODE)):
        folder = root / name
        if not folder.is_dir():
            folder.mkdir()
            folder.chmod(mode)
    served = root / "htdocs"
    if not any(served.iterdir()):
        page = served / "index.html"
        page.write_text(first_page, encoding="utf-8")
        page.chmod(0o644)
