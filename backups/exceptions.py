"""What can go wrong with backups."""


class BackupError(Exception):
    """Base of this package's errors; the text is the message for the person who asked."""


class BackupNotFound(BackupError):
    """There is no such backup, or it is not this actor's to see: the two are not told apart."""
