"""backup.verify_backup: read an artifact back. A bad one is a result, not an error."""

from pathlib import Path

from agent.archive import files, manifest
from agent.archive.check import compression_of, problems_of
from agent.archive.layout import artifact
from agent.archive.manifest import Manifest
from agent.archive.streams import opened
from agent.declarations.backup import VerifyBackup
from agent.exceptions import ActionFailed
from agent.operation import OperationView
from agent.owner import Owner, owner_of
from agent.paths import scratch


def run(arguments: VerifyBackup, operation: OperationView) -> dict[str, object]:
    """Say whether the artifact is good, and what is wrong with it where it is not."""
    policy = operation.policy
    made = artifact(policy, arguments.store, arguments.site_id, arguments.backup)
    try:
        written = manifest.read(made.folder, arguments.manifest_sha256)
        _require_belonging(written, arguments)
    except ActionFailed as error:
        return _told(arguments, None, [str(error)])
    owner = owner_of(policy, arguments.site_id)
    with scratch(policy, arguments.site_id, owner) as space:
        problems = problems_of(written, made.folder, space, owner, operation)
        if arguments.deep and not problems:
            problems = _deep_problems(written, made.folder, space, owner)
    return _told(arguments, written, problems)


def _require_belonging(written: Manifest, arguments: VerifyBackup) -> None:
    if (written.site_id, written.backup) != (arguments.site_id, arguments.backup):
        raise ActionFailed("the manifest belongs to another backup")


def _deep_problems(written: Manifest, folder: Path, space: Path, owner: Owner | None) -> list[str]:
    """Unpack the whole archive into scratch space, as a restore would."""
    try:
        with opened(folder / written.files.name, compression_of(written)) as stream:
            files.unpack(stream, space, owner=owner)
        files.require_contents(space)
    except ActionFailed as error:
        return [f"a trial restore failed: {error}"]
    return []


def _told(arguments: VerifyBackup, written: Manifest | None, problems: list[str]) -> dict[str, object]:
    databases = written.databases if written else ()
    return {
        "backup": arguments.backup,
        "verified": not problems,
        "problems": problems,
        "files": written.files.entries if written else 0,
        "databases": manifest.told(databases),
    }
