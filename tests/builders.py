"""Small builders for rows beyond the cast."""

from sites.models import Site
from tests.cast import Cast, site


def make_site(cast: Cast, domain: str) -> Site:
    """Make one more active site of the first customer."""
    return site(cast.customer, cast.server, domain)
