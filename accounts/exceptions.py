"""What can go wrong in tenancy."""


class AccountError(Exception):
    """Base of this package's errors; the text is the message for the person who asked."""


class NotAllowed(AccountError):
    """The actor lacks the right to make this change."""
