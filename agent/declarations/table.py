"""Every action there is, by name. What is not here does not exist."""

from agent.declarations.backup import CreateBackup, DeleteBackup, RestoreBackup, VerifyBackup
from agent.declarations.hosting import CreateSite
from agent.declarations.schema import Declaration
from agent.declarations.system import CancelOperation, Ping, ReadJournal

DECLARATIONS: dict[str, type[Declaration]] = {
    declaration.action: declaration
    for declaration in (
        Ping,
        CancelOperation,
        ReadJournal,
        CreateSite,
        CreateBackup,
        VerifyBackup,
        RestoreBackup,
        DeleteBackup,
    )
}
