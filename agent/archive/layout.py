"""Where an artifact lies in the archive store, and the making of a new one: all or nothing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.exceptions import ActionFailed
from agent.paths import remove_tree, sync_folder
from agent.policy import Policy

PARTIAL_PREFIX = ".partial-"
MANIFEST = "manifest.json"
DATABASES = "databases"


@dataclass(frozen=True)
class Artifact:
    """The folder of one backup of one site. All folders of a store are root's, mode 0700."""

    site_folder: Path
    code: str

    @property
    def folder(self) -> Path:
        """Where the finished artifact is."""
        return self.site_folder / self.code

    @property
    def partial(self) -> Path:
        """Where it is while it is being made; the name can be mistaken for no artifact."""
        return self.site_folder / (PARTIAL_PREFIX + self.code)

    @property
    def exists(self) -> bool:
        """Whether there is a finished artifact."""
        return (self.folder / MANIFEST).is_file()


def artifact(policy: Policy, store: str, site_id: int, code: str) -> Artifact:
    """Name an artifact. Raises ActionFailed for a store that the policy does not have."""
    if store not in policy.stores:
        raise ActionFailed(f"this server has no store {store!r}; it has {', '.join(sorted(policy.stores))}")
    return Artifact(policy.stores[store] / str(site_id), code)


@contextmanager
def draft(made: Artifact) -> Iterator[Path]:
    """Give the folder in which to make an artifact; at the end of the block it takes its place, synced.

    Whatever ends the block early leaves nothing. Left-overs of killed runs are removed first: the site's lock
    is held, so nobody works on them. Raises ActionFailed where the artifact exists.
    """
    if made.folder.exists():
        raise ActionFailed(f"{made.code} exists already in this store")
    made.site_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_partials(made.site_folder)
    made.partial.mkdir(mode=0o700)
    try:
        (made.partial / DATABASES).mkdir(mode=0o700)
        yield made.partial
        sync_folder(made.partial / DATABASES)
        sync_folder(made.partial)
        os.rename(made.partial, made.folder)
        sync_folder(made.site_folder)
    except BaseException:
        remove_tree(made.partial)
        raise


def remove_partials(site_folder: Path) -> int:
    """Remove what killed runs left of artifacts and give how many there were."""
    left = [path for path in site_folder.iterdir() if path.name.startswith(PARTIAL_PREFIX)]
    for path in left:
        remove_tree(path)
    return len(left)
