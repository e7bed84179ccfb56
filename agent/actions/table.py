"""What this agent can do: one function per action."""

from collections.abc import Callable
from typing import Any

from agent.actions.backup import create_backup, delete_backup, restore_backup, verify_backup
from agent.actions.hosting import create_site
from agent.declarations.backup import CreateBackup, DeleteBackup, RestoreBackup, VerifyBackup
from agent.declarations.hosting import CreateSite

# Each function takes its own declaration; the table cannot say that more narrowly than Any.
ACTIONS: dict[str, Callable[[Any, Any], dict[str, object]]] = {
    CreateSite.action: create_site.run,
    CreateBackup.action: create_backup.run,
    VerifyBackup.action: verify_backup.run,
    RestoreBackup.action: restore_backup.run,
    DeleteBackup.action: delete_backup.run,
}
