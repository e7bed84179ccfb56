"""The visible table of operations: what this installation can do. To add one, add its line here."""

from backups.operations.back_up_site import BackUpSite
from backups.operations.restore_site import RestoreSite
from backups.operations.verify_backup import VerifyBackup
from jobs.operation import Operation
from provisioning.operations.provision_site import ProvisionSite

OPERATIONS: tuple[type[Operation], ...] = (
    ProvisionSite,
    BackUpSite,
    VerifyBackup,
    RestoreSite,
)
