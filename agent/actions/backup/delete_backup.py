"""backup.delete_backup: remove an artifact and what a broken-off run left of it; safe to repeat."""

import os

from agent.archive.layout import artifact
from agent.declarations.backup import DeleteBackup
from agent.operation import OperationView
from agent.paths import remove_tree, sync_folder


def run(arguments: DeleteBackup, operation: OperationView) -> dict[str, object]:
    """Remove it and say whether there was anything."""
    made = artifact(operation.policy, arguments.store, arguments.site_id, arguments.backup)
    existed = made.folder.exists() or made.partial.exists()
    if made.folder.exists():
        # Renamed first: what is half removed can be mistaken for no artifact.
        remove_tree(made.partial)
        os.rename(made.folder, made.partial)
    remove_tree(made.partial)
    if made.site_folder.exists():
        sync_folder(made.site_folder)
    return {"backup": arguments.backup, "deleted": existed}
