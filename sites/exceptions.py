"""What can go wrong in the inventory."""


class SiteError(Exception):
    """Base of this package's errors; the text is the message for the person who asked."""


class SiteNotFound(SiteError):
    """There is no such site, or it is not this actor's to see: the two are not told apart."""


class SiteRefused(SiteError):
    """The site cannot be added or changed as asked."""
