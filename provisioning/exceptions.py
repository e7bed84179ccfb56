"""What can go wrong in provisioning."""


class ResourceError(Exception):
    """Base of this package's errors; the text is the message for the person who asked."""


class ResourceRefused(ResourceError):
    """The resource cannot be added or changed as asked."""
