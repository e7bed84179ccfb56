"""What the tests of the admin begin with."""

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from tests.cast import Cast
from tests.panel.samples import visitor


@pytest.fixture
def staff(cast: Cast) -> Client:
    """Give the browser of a superuser, who may do all that anybody may."""
    return visitor(cast.staff)


@pytest.fixture
def onlooker(cast: Cast) -> Client:
    """Give the browser of staff with every permission of Django's but that to operate sites."""
    cast.onlooker.user_permissions.set(Permission.objects.exclude(codename="operate_site"))
    return visitor(cast.onlooker)
