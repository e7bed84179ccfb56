"""What can be wrong with the trail."""


class AuditError(Exception):
    """The audit trail cannot be used."""


class KeyFileRefused(AuditError):
    """The audit key file is missing, short, malformed or readable by others."""


class OutsideTransaction(AuditError):
    """An entry is recorded only inside the transaction of what it tells of."""


class HeadMissing(AuditError):
    """The row that says where the chain ends is gone."""


class AnchorRefused(AuditError):
    """The chain does not continue what the last anchor names, or the anchor file cannot be trusted."""
